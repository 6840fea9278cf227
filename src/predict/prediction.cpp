#include "predict/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "predict/walk.hpp"

namespace flashmoe::predict {
namespace {

// Judgements, until somebody's card has spoken (docs/predict.md).
constexpr double plain_interval = 0.15;  // relative, either side
constexpr double short_interval = 0.30;  // below short_us
constexpr double short_us = 10;
constexpr double interval_per_doubt = 0.15;
constexpr double most_interval = 0.9;
constexpr double refused_unmatched = 0.10;  // of what is executed; doubted from most_unmatched_weight on
constexpr double most_unknown = 0.02;
constexpr double most_contended = 0.02;  // of what is executed: atomics and fences
constexpr double most_l2_use = 0.8;
constexpr double most_not_affine = 0.05;
constexpr double limiting_use = 0.7;  // a pipe this busy limits; below it latency does

std::string percent(double share) {
  return std::to_string(std::lround(100 * share)) + " %";
}

struct Sample {
  double instructions = 0;  // as the launch counts them
  CtaCost alone{};
  CtaCost resident{};
};

// Who waits for whom at one address, and how long for stores to be seen, is not modelled.
bool may_contend(const SassInstruction& instruction) {
  constexpr std::array opcodes{"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS", "MEMBAR", "FENCE"};
  return std::find(opcodes.begin(), opcodes.end(), instruction.base()) != opcodes.end();
}

// What was executed and cannot be timed, by opcode.
void judge_instructions(const Launch& launch, Prediction& answer) {
  std::map<std::string, double> unknown;
  std::set<std::string> unsupported;
  double all = 0, contended = 0;
  for (const CtaPath& path : launch.samples)
    for (const WarpPath& warp : path.warps)
      for (const std::uint32_t i : warp.instructions) {
        ++all;
        const SassInstruction& instruction = launch.kernel.instructions[i];
        const Kind kind = kind_of(instruction);
        if (kind == Kind::unsupported) unsupported.emplace(instruction.base());
        if (may_contend(instruction)) ++contended;
        if (kind == Kind::unknown) ++unknown[std::string(instruction.base())];
      }
  if (contended > most_contended * all)
    answer.doubts.push_back(percent(contended / all) +
                            " of what runs are atomics and fences, which wait for one another as nobody here knows");
  for (const std::string& opcode : unsupported)
    answer.refusals.push_back(opcode + " is executed, and nothing here can say how long it takes");
  for (const auto& [opcode, times] : unknown) {
    const std::string text =
        opcode + " is no instruction that is known here, " + percent(times / all) + " of what runs";
    (times / all > most_unknown ? answer.refusals : answer.doubts).push_back(text);
  }
}

void judge_machine(const Launch& launch, const Machine& machine, const Sample& heaviest, Prediction& answer) {
  if (launch.unmatched_weight > most_unmatched_weight)
    (launch.unmatched_weight > refused_unmatched ? answer.refusals : answer.doubts)
        .push_back(percent(launch.unmatched_weight) + " of what ran has no known place in the SASS");
  const int sm = machine.architecture.sm();
  if (sm != 80 && sm != 86 && sm != 89)
    answer.doubts.push_back("nothing measured on " + std::string(machine.architecture.name) +
                            " was held against the model of its SM");
  const double l2_use = heaviest.resident.use(Pipe::l2);
  if (l2_use > most_l2_use) {
    const std::string text = "L2 is busy for " + percent(l2_use) + " of the time, and its share for an SM is ";
    if (machine.l2_share_is_known)
      answer.doubts.push_back(text + "a mean over all SMs");
    else
      answer.refusals.push_back(text + "not known");
  }
  if (heaviest.resident.forced_barriers > 0)
    answer.doubts.emplace_back("warps waited at a barrier for nobody: the path does not fit its barriers");
  if (heaviest.resident.not_affine > most_not_affine)
    answer.doubts.push_back("iterations of the long loop that was extended differ by " +
                            percent(heaviest.resident.not_affine));
}

Result<std::vector<Sample>> cost_samples(const Launch& launch, const Program& program, int resident) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < launch.samples.size(); ++i) {
    const CtaPath& path = launch.samples[i];
    Sample sample{.instructions = static_cast<double>(
                      i < launch.sample_instructions.size() ? launch.sample_instructions[i] : path.instructions())};
    // The same path twice teaches nothing.
    if (std::any_of(samples.begin(), samples.end(),
                    [&](const Sample& other) { return other.instructions == sample.instructions; }))
      continue;
    auto alone = cta_cost(program, path, 1);
    if (!alone) return alone.error();
    sample.alone = std::move(*alone);
    if (resident > 1) {
      auto shared = cta_cost(program, path, resident);
      if (!shared) return shared.error();
      sample.resident = std::move(*shared);
    } else {
      sample.resident = sample.alone;
    }
    samples.push_back(std::move(sample));
  }
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.instructions < b.instructions; });
  return samples;
}

std::vector<CtaCycles> cycles_of_ctas(const Launch& launch, const std::vector<Sample>& samples) {
  std::vector<CurvePoint> curve;
  curve.reserve(samples.size());
  for (const Sample& sample : samples)
    curve.push_back({sample.instructions, {sample.alone.cycles, sample.resident.cycles}});
  if (launch.cta_instructions.empty())
    return std::vector<CtaCycles>(static_cast<std::size_t>(launch.ctas), curve.front().cycles);
  std::vector<CtaCycles> ctas;
  for (const std::uint64_t instructions : launch.cta_instructions)
    ctas.push_back(cycles_at(curve, static_cast<double>(instructions)));
  return ctas;
}

void fill_uses(const Sample& heaviest, Prediction& answer) {
  const CtaCost& cost = heaviest.resident;
  answer.uses.push_back({"issue", cost.issue_use()});
  for (std::size_t i = 0; i < pipes; ++i) {
    const auto pipe = static_cast<Pipe>(i);
    if (cost.use(pipe) > 0) answer.uses.push_back({name_of(pipe), cost.use(pipe)});
  }
  std::stable_sort(answer.uses.begin(), answer.uses.end(),
                   [](const PipeUse& a, const PipeUse& b) { return a.use > b.use; });
  for (std::uint32_t i = 0; i < cost.stalled.size(); ++i) {
    const double executions = cost.stalled[i][static_cast<std::size_t>(Stall::issue)];
    if (executions > 0) answer.costs.push_back({i, executions, cost.stalled[i]});
  }
}

std::string largest_wait(const Prediction& answer) {
  std::array<double, stalls> sums{};
  for (const InstructionCost& cost : answer.costs)
    for (std::size_t k = 0; k < stalls; ++k) sums[k] += cost.cycles[k];
  sums[static_cast<std::size_t>(Stall::issue)] = 0;
  sums[static_cast<std::size_t>(Stall::not_selected)] = 0;
  const auto largest = std::max_element(sums.begin(), sums.end());
  return std::string(name_of(static_cast<Stall>(largest - sums.begin())));
}

std::string limiter_of(const Prediction& answer, const Launch& launch, const Gpu& gpu, bool dram_decides) {
  if (dram_decides) return "DRAM";
  if (static_cast<double>(launch.ctas) < gpu.sm_count.value) return "too few CTAs";
  if (answer.uses.front().use >= limiting_use) return std::string(answer.uses.front().name);
  return "latency: " + largest_wait(answer);
}

Time time_of(const Prediction& answer, double dram_seconds, double clock_mhz) {
  if (clock_mhz <= 0) return {};
  const double us = std::max(answer.cycles / clock_mhz, dram_seconds * 1e6);
  const double either_side =
      std::min(most_interval, (us < short_us ? short_interval : plain_interval) +
                                  interval_per_doubt * static_cast<double>(answer.doubts.size()));
  return {.us = us,
          .least_us = us * (1 - either_side),
          .most_us = us * (1 + either_side) + answer.cold_start_cycles.most / clock_mhz};
}

// What all SMs have together, for those that a small grid keeps at work; at most what one can take.
double l2_share(const Machine& machine, const Gpu& gpu, std::int64_t ctas) {
  const double at_work = std::min(gpu.sm_count.value, static_cast<double>(ctas));
  const double share = machine.l2_bytes_per_clock * gpu.sm_count.value / at_work;
  return std::max(machine.l2_bytes_per_clock, std::min(share, machine.parameters.sm_l2_bytes_per_clock.value));
}

Result<Done> check(const Launch& launch) {
  if (launch.samples.empty()) return Diagnostic{.message = "no path of a CTA is known"};
  if (launch.ctas < 1) return Diagnostic{.message = "a launch without CTAs"};
  if (!launch.cta_instructions.empty() && static_cast<std::int64_t>(launch.cta_instructions.size()) != launch.ctas)
    return Diagnostic{.message = "counts of " + std::to_string(launch.cta_instructions.size()) +
                                 " CTAs for a grid of " + std::to_string(launch.ctas)};
  for (const CtaPath& path : launch.samples)
    for (const WarpPath& warp : path.warps)
      for (const std::uint32_t i : warp.instructions)
        if (i >= launch.kernel.instructions.size())
          return Diagnostic{.message = "a path names instruction " + std::to_string(i) + " of " +
                                       std::to_string(launch.kernel.instructions.size())};
  return Done{};
}

}  // namespace

Result<Prediction> predict(const Launch& launch, const Gpu& gpu) {
  if (const auto checked = check(launch); !checked) return checked.error();
  auto machine = machine_of(gpu);
  if (!machine) return machine.error();
  Prediction answer{.occupancy = occupancy(machine->architecture, launch.resources)};
  if (answer.occupancy.ctas_per_sm < 1)
    return Diagnostic{.message = "a CTA does not fit into an SM: " + answer.occupancy.limiter};
  const double sms = gpu.sm_count.value;
  // A grid that leaves places empty never has all of them taken.
  const int resident =
      std::min(answer.occupancy.ctas_per_sm, static_cast<int>(std::ceil(static_cast<double>(launch.ctas) / sms)));
  answer.waves = static_cast<double>(launch.ctas) / (sms * answer.occupancy.ctas_per_sm);

  machine->l2_bytes_per_clock = l2_share(*machine, gpu, launch.ctas);
  const Program program = make_program(launch.kernel, launch.memory, *machine);
  const auto samples = cost_samples(launch, program, resident);
  if (!samples) return samples.error();
  const Sample& heaviest = samples->back();
  const auto ctas = cycles_of_ctas(launch, *samples);
  answer.cycles = grid_cycles(ctas, static_cast<int>(sms), resident, machine->parameters.cta_gap.value);
  const auto count = static_cast<double>(ctas.size());
  for (const CtaCycles& cta : ctas) {
    answer.cta_alone += cta.alone / count;
    answer.cta_resident += cta.resident / count;
  }
  answer.spread = heaviest.resident.spread;
  answer.extended = heaviest.resident.extended;
  fill_uses(heaviest, answer);
  // Work is in proportion to cycles alone: what the heaviest CTA keeps busy, over all SMs for the whole launch.
  const double work = count * answer.cta_alone / heaviest.alone.cycles / (sms * answer.cycles * 4);
  answer.tensor_use = heaviest.resident.busy[static_cast<std::size_t>(Pipe::tensor)] * work;
  answer.issue_use = heaviest.resident.instructions * work;

  judge_instructions(launch, answer);
  judge_machine(launch, *machine, heaviest, answer);
  std::set<std::uint32_t> lines;
  for (const InstructionCost& cost : answer.costs)
    lines.insert(launch.kernel.instructions[cost.instruction].address / 128);
  answer.cold_start_cycles = cold_start_cycles(*machine, 128.0 * static_cast<double>(lines.size()));
  answer.launch = launch_cost(gpu);
  const double dram = dram_seconds(gpu, launch.dram_bytes, launch.working_set_bytes);
  answer.limiter = limiter_of(answer, launch, gpu, dram * 1e6 > answer.cycles / gpu.boost_clock_mhz.value);
  answer.boost = time_of(answer, dram, gpu.boost_clock_mhz.value);
  answer.sustained = time_of(answer, dram, sustained_clock_mhz(gpu).value);
  return answer;
}

}  // namespace flashmoe::predict
