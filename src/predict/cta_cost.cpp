#include "predict/cta_cost.hpp"

#include <algorithm>
#include <cmath>
#include <future>
#include <optional>

namespace flashmoe::predict {
namespace {

constexpr int generations = 2;  // of CTAs that follow each other in a slot
// Cycles between the starts of two resident CTAs, times 0..7: no multiple of a pipe's interval, and small beside a CTA.
constexpr std::uint32_t offset_step = 23;
// Iterations that are simulated of a long loop: the first ones fill the pipeline, the differences of the others count.
constexpr std::array<std::size_t, 3> simulated_iterations{6, 9, 12};

// Sums of all that is a sum, so that it can be extended linearly.
struct Sums {
  double cycles = 0;
  double sm_cycles = 0;
  double instructions = 0;
  double forced_barriers = 0;
  std::array<double, pipes> busy{};
  std::vector<std::array<double, stalls>> stalled{};

  // this += factor * other
  void add(const Sums& other, double factor) {
    cycles += factor * other.cycles;
    sm_cycles += factor * other.sm_cycles;
    instructions += factor * other.instructions;
    forced_barriers += factor * other.forced_barriers;
    for (std::size_t i = 0; i < pipes; ++i) busy[i] += factor * other.busy[i];
    stalled.resize(std::max(stalled.size(), other.stalled.size()));
    for (std::size_t i = 0; i < other.stalled.size(); ++i)
      for (std::size_t k = 0; k < stalls; ++k) stalled[i][k] += factor * other.stalled[i][k];
  }
};

// Warps of the youngest CTA go first, so that CTAs which share an SM do not end together, and how long one was there
// says little. What an SM takes for all of them does.
Sums per_cta(const SmRun& run) {
  const auto ctas = static_cast<double>(run.ctas.size());
  Sums sums{.cycles = static_cast<double>(run.cycles) / generations,
            .sm_cycles = static_cast<double>(run.cycles) / ctas,
            .instructions = static_cast<double>(run.instructions) / ctas,
            .forced_barriers = static_cast<double>(run.forced_barriers) / ctas};
  for (std::size_t i = 0; i < pipes; ++i) sums.busy[i] = run.busy[i] / ctas;
  sums.stalled.resize(run.stalled.size());
  for (std::size_t i = 0; i < run.stalled.size(); ++i)
    for (std::size_t k = 0; k < stalls; ++k) sums.stalled[i][k] = static_cast<double>(run.stalled[i][k]) / ctas;
  return sums;
}

struct Mean {
  Sums sums{};
  double spread = 0;
};

Result<Mean> mean_over_offsets(const Program& program, const CtaPath& path, int resident) {
  // Side by side, since they know nothing of one another; where the system has no thread left, when they are asked for.
  std::vector<std::future<Result<SmRun>>> runs;
  for (std::uint32_t k = 0; k < start_offsets; ++k)
    runs.push_back(std::async([&program, &path, resident, k] {
      return simulate(program, {&path, 1},
                      {.resident = resident, .ctas = generations * resident, .offset = k * offset_step});
    }));
  Mean mean;
  double squares = 0;
  for (auto& waited : runs) {
    const auto run = waited.get();
    if (!run) return run.error();
    const Sums sums = per_cta(*run);
    mean.sums.add(sums, 1.0 / start_offsets);
    squares += sums.cycles * sums.cycles / start_offsets;
  }
  const double cycles = mean.sums.cycles;
  mean.spread = cycles > 0 ? std::sqrt(std::max(0.0, squares - cycles * cycles)) / cycles : 0;
  return mean;
}

CtaCost cost_of(Sums sums, double spread) {
  return {.cycles = sums.cycles,
          .spread = spread,
          .instructions = sums.instructions,
          .sm_cycles = sums.sm_cycles,
          .busy = sums.busy,
          .stalled = std::move(sums.stalled),
          .forced_barriers = sums.forced_barriers};
}

// The loops of all warps, if they go round equally often: else a shortened path would miss barriers.
std::optional<std::vector<Loop>> common_loop(const CtaPath& path) {
  std::vector<Loop> loops;
  for (const WarpPath& warp : path.warps) {
    // Warps mostly go the same way.
    const bool same = !loops.empty() && warp == path.warps.front();
    loops.push_back(same ? loops.front() : longest_loop(warp));
    if (loops.back().count != loops.front().count) return {};
  }
  if (loops.empty() || loops.front().period == 0 || loops.front().count < simulated_iterations.front()) return {};
  return loops;
}

// The path with `count` iterations of its loop, fewer or more than it had.
CtaPath with_iterations(const CtaPath& path, const std::vector<Loop>& loops, std::size_t count) {
  CtaPath made;
  for (std::size_t w = 0; w < path.warps.size(); ++w) {
    const auto& all = path.warps[w].instructions;
    const Loop& loop = loops[w];
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(loop.begin);
    const auto body_end = begin + static_cast<std::ptrdiff_t>(loop.period);
    const auto end = begin + static_cast<std::ptrdiff_t>(loop.period * loop.count);
    std::vector<std::uint32_t> instructions(all.begin(), begin);
    for (std::size_t i = 0; i < count; ++i) instructions.insert(instructions.end(), begin, body_end);
    instructions.insert(instructions.end(), end, all.end());
    made.warps.push_back({std::move(instructions)});
  }
  return made;
}

struct Slope {
  std::array<Mean, simulated_iterations.size()> at{};
  Sums per_iteration{};
  double not_affine = 0;
};

Result<Slope> slope_of(const Program& program, const CtaPath& path, const std::vector<Loop>& loops, int resident) {
  Slope slope;
  for (std::size_t i = 0; i < simulated_iterations.size(); ++i) {
    auto mean = mean_over_offsets(program, with_iterations(path, loops, simulated_iterations[i]), resident);
    if (!mean) return mean.error();
    slope.at[i] = std::move(*mean);
  }
  const auto distance = [](std::size_t a, std::size_t b) {
    return static_cast<double>(simulated_iterations[b] - simulated_iterations[a]);
  };
  slope.per_iteration.add(slope.at[2].sums, 1 / distance(0, 2));
  slope.per_iteration.add(slope.at[0].sums, -1 / distance(0, 2));
  const double early = (slope.at[1].sums.cycles - slope.at[0].sums.cycles) / distance(0, 1);
  const double late = (slope.at[2].sums.cycles - slope.at[1].sums.cycles) / distance(1, 2);
  slope.not_affine = std::abs(late - early) / slope.per_iteration.cycles;
  return slope;
}

}  // namespace

double CtaCost::use(Pipe pipe) const {
  const bool of_the_sm = pipe == Pipe::port || pipe == Pipe::l2;
  return sm_cycles > 0 ? busy[static_cast<std::size_t>(pipe)] / sm_cycles / (of_the_sm ? 1 : 4) : 0;
}

double CtaCost::issue_use() const {
  return sm_cycles > 0 ? instructions / sm_cycles / 4 : 0;
}

Result<CtaCost> cta_cost(const Program& program, const CtaPath& path, int resident, std::uint64_t most_instructions) {
  const std::uint64_t all =
      path.instructions() * static_cast<std::uint64_t>(std::max(1, resident)) * generations * start_offsets;
  const auto loops = all > most_instructions ? common_loop(path) : std::nullopt;
  if (!loops || loops->front().count <= simulated_iterations.back()) {
    auto mean = mean_over_offsets(program, path, resident);
    if (!mean) return mean.error();
    return cost_of(std::move(mean->sums), mean->spread);
  }
  auto slope = slope_of(program, path, *loops, resident);
  if (!slope) return slope.error();
  Mean& last = slope->at.back();
  last.sums.add(slope->per_iteration, static_cast<double>(loops->front().count - simulated_iterations.back()));
  CtaCost cost = cost_of(std::move(last.sums), last.spread);
  cost.extended = true;
  cost.not_affine = slope->not_affine;
  return cost;
}

Result<CtaCost> iteration_cost(const Program& program, const CtaPath& path, int resident) {
  const auto loops = common_loop(path);
  if (!loops)
    return Diagnostic{.message = "no loop that all warps of the CTA go through equally often, " +
                                 std::to_string(simulated_iterations.front()) + " times or more"};
  auto slope = slope_of(program, path, *loops, resident);
  if (!slope) return slope.error();
  CtaCost cost = cost_of(std::move(slope->per_iteration), slope->at.back().spread);
  cost.extended = true;
  cost.not_affine = slope->not_affine;
  return cost;
}

}  // namespace flashmoe::predict
