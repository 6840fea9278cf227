#include "record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "images/elf.hpp"
#include "plain.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "support/sha256.hpp"
#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "workflow/compare/measure.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::arena {
namespace {

namespace fs = std::filesystem;
using workflow::MeasuredPair;
using workflow::PairProblem;
using workflow::PairSetup;
using workflow::Runnable;

struct Built {
  workflow::Project project;
  Runnable kernel, reference;
};

Result<Built> build(const Task& task, const std::string& name, const std::string& source, const fs::path& root) {
  const fs::path directory = root / task.name / name;
  fs::create_directories(directory);
  for (const auto& [file, text] : files_of(task, source)) std::ofstream(directory / file) << text;
  auto project = workflow::load_project(directory.string());
  if (!project) return project.error();
  const workflow::BuildOptions options{.output_root = (root / "build").string()};
  auto kernel = workflow::make_runnable(*project, project->kernel, "kernel", name, options);
  if (!kernel) return kernel.error();
  auto reference = workflow::make_runnable(*project, project->reference, "reference", "reference", options);
  if (!reference) return reference.error();
  return Built{std::move(*project), std::move(*kernel), std::move(*reference)};
}

// Of its machine code and constants: names and lines in the debug information are not what runs.
std::string code_hash(const Runnable& runnable) {
  const auto bytes = read_bytes(runnable.library);
  if (!bytes) return "";
  const auto elf = read_elf(*bytes);
  if (!elf) return "";
  std::string code;
  for (const char* name : {".text", ".rodata", ".data", ".init_array"}) {
    const ElfSection* section = elf->find(name);
    if (section == nullptr) continue;
    code += name;
    code.append(reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size());
  }
  return sha256_hex(code).substr(0, 16);
}

double load_now() {
  return workflow::cpu_state().load_1min.value_or(0);
}

// "2 cores of Intel ..., at 2.5 GHz": what /proc says, for people.
std::string machine_text(const std::vector<double>& loads) {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "an unknown processor";
  int cores = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("processor")) ++cores;
    if (line.starts_with("model name")) model = line.substr(line.find(':') + 2);
  }
  double lowest = INFINITY;
  double highest = 0;
  for (const double load : loads) {
    lowest = std::min(lowest, load);
    highest = std::max(highest, load);
  }
  return fmt::format("{} virtual cores of {}, load average {:.1f} to {:.1f}", cores, model, lowest, highest);
}

class Recorder {
 public:
  Recorder(const RecordOptions& options, const fs::path& root, Progress& progress)
      : options_(options), root_(root), progress_(progress) {}

  Result<RecordedTask> record(const Task& task) {
    const auto base = build(task, "base", task.base, root_);
    if (!base) return base.error();
    RecordedTask recorded{.name = task.name,
                          .family = task.family,
                          .data = data_hash(task, nullptr),
                          .library = code_hash(base->kernel),
                          .load = {load_now()}};
    PairSetup equal = setup_of(*base, base->kernel);
    for (int i = 0; i < options_.equal_pairs; ++i) {
      progress_.update(fmt::format("{}: equal pair {}", task.name, i + 1));
      MeasuredPair measured = measured_again_if(equal, i, true, recorded.measured_again);
      if (measured.outcome.problem != PairProblem::none) return measured.outcome.diagnostic;
      recorded.equal_pairs.push_back(std::move(measured.blocks));
    }
    for (const Candidate& candidate : task.candidates) {
      auto one = record(task, candidate, *base, recorded.measured_again);
      if (!one) return one.error();
      recorded.candidates.push_back(std::move(*one));
    }
    recorded.load.push_back(load_now());
    return recorded;
  }

 private:
  [[nodiscard]] PairSetup setup_of(const Built& base, const Runnable& candidate) const {
    return {.project = &base.project,
            .workload = *workflow::target_workload(base.project),
            .base = base.kernel,
            .candidate = candidate,
            .reference = base.reference,
            .seed = workflow::fresh_seed(),
            .block_seconds = options_.block_seconds};
  }

  // A busy machine can make the guards refuse a kernel that is known to be honest. Such a pair is measured again, and
  // counted.
  static MeasuredPair measured_again_if(const PairSetup& setup, int index, bool honest, int& count) {
    constexpr int most = 5;
    MeasuredPair measured = workflow::measure_blocks(setup, index);
    for (int i = 0; i < most; ++i) {
      const PairProblem problem = measured.outcome.problem;
      if (problem != PairProblem::base_failed && !(honest && problem == PairProblem::candidate_failed)) break;
      ++count;
      measured = workflow::measure_blocks(setup, index);
    }
    return measured;
  }

  Result<RecordedCandidate> record(const Task& task, const Candidate& candidate, const Built& base, int& again) {
    progress_.update(task.name + ": " + candidate.name);
    const auto built = build(task, candidate.name, candidate.source, root_);
    if (!built) return built.error();
    RecordedCandidate recorded{.name = candidate.name,
                               .truth = candidate.truth,
                               .gain = candidate.gain,
                               .data = data_hash(task, &candidate),
                               .library = code_hash(built->kernel)};
    if (const auto done = try_plainly(task, candidate, base, *built, recorded); !done) return done.error();
    const int attempts = is_honest(candidate.truth) ? 1 : options_.attempts;
    for (int i = 0; i < attempts; ++i) {
      auto attempt = try_through_gates(candidate, base, *built, again);
      if (!attempt) return attempt.error();
      recorded.attempts.push_back(std::move(*attempt));
    }
    return recorded;
  }

  Result<Done> try_plainly(const Task& task, const Candidate& candidate, const Built& base, const Built& built,
                           RecordedCandidate& recorded) {
    const PlainPlayers base_players{base.project.directory, base.kernel, base.reference};
    const PlainPlayers players{built.project.directory, built.kernel, built.reference};
    if (candidate.witness) {
      const auto wrong = is_wrong_at(players, *candidate.witness, candidate.witness_values, workflow::fresh_seed());
      if (!wrong) return wrong.error();
      recorded.witnessed = *wrong;
    }
    std::vector<workflow::Values> shapes{task.tiny};
    shapes.insert(shapes.end(), task.sweep.begin(), task.sweep.end());
    shapes.push_back(task.target);
    const auto swept = plain_sweep(players, shapes, workflow::fresh_seed());
    if (!swept) return swept.error();
    recorded.shapes = *swept;
    recorded.one_shape = true;
    for (int i = 0; i < options_.plain_runs; ++i) {
      const std::uint64_t seed = workflow::fresh_seed();
      auto before = plain_run(base_players, seed);
      if (!before) return before.error();
      auto after = plain_run(players, seed);
      if (!after) return after.error();
      recorded.one_shape = recorded.one_shape && after->right;
      recorded.plain.push_back({std::move(before->nanoseconds), std::move(after->nanoseconds)});
    }
    recorded.shapes = recorded.shapes && recorded.one_shape;
    return Done{};
  }

  Result<Attempt> try_through_gates(const Candidate& candidate, const Built& base, const Built& built, int& again) {
    Attempt attempt;
    Progress quiet(1, true);
    const workflow::GateResult gate = workflow::run_correctness_gate(base.project, built.kernel, base.reference,
                                                                     {.seed = workflow::fresh_seed()}, quiet);
    if (interrupted()) return Diagnostic{.message = "interrupted", .fix = "the same command goes on"};
    if (gate.outcome != workflow::Outcome::holds) {
      attempt.refused_by = "correctness";
      attempt.why = gate.summary;
      return attempt;
    }
    const PairSetup setup = setup_of(base, built.kernel);
    const int most = is_honest(candidate.truth) ? options_.pairs : workflow::ComparePolicy{}.max_pairs;
    for (int i = 0; i < most; ++i) {
      MeasuredPair measured = measured_again_if(setup, i, is_honest(candidate.truth), again);
      if (measured.outcome.problem == PairProblem::candidate_failed) {
        attempt.refused_by = "contest";
        attempt.why = measured.outcome.diagnostic.message;
        return attempt;
      }
      if (measured.outcome.problem != PairProblem::none) return measured.outcome.diagnostic;
      attempt.pairs.push_back(std::move(measured.blocks));
    }
    return attempt;
  }

  RecordOptions options_;
  fs::path root_;
  Progress& progress_;
};

struct Part {
  std::string lines;
  std::set<std::string> tasks;
  std::vector<double> loads;
};

// A task's first line has its loads; its candidates follow.
void add_to(Part& part, const std::string& lines) {
  part.lines += lines;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const Json json = parse_json(line);
    if (field_in(json, "candidate") != nullptr) continue;
    part.tasks.insert(text_in(json, "task"));
    for (const Json& load : list_in(json, "load")) part.loads.push_back(load.get<double>());
  }
}

}  // namespace

Result<Done> record_all(const std::vector<Task>& tasks, const std::string& file, const RecordOptions& options,
                        Progress& progress) {
  const TemporaryDirectory directory;
  if (directory.path().empty()) {
    return Diagnostic{.message = "no temporary directory in " + fs::temp_directory_path().string(),
                      .fix = "set TMPDIR to a place that can be written to"};
  }
  const std::string part_file = file + ".part";
  Part part;
  add_to(part, whole_file(part_file).value_or(""));
  Recorder recorder(options, directory.path(), progress);
  for (const Task& task : tasks) {
    if (part.tasks.contains(task.name)) continue;
    progress.step(task.name, 30);
    const auto recorded = recorder.record(task);
    if (!recorded) return recorded.error();
    const std::string lines = lines_of(*recorded);
    std::ofstream(part_file, std::ios::app) << lines;
    add_to(part, lines);
  }
  std::ofstream(file) << file_of(machine_text(part.loads), part.lines);
  fs::remove(part_file);
  progress.done();
  return Done{};
}

}  // namespace flashmoe::arena
