#include "workflow/selftest/cuda_corpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* source_file = "corpus.cu";

std::vector<std::string> kernels_of(const CudaCase& one) {
  return one.launches.empty() ? std::vector{one.name} : one.launches;
}

std::string project_text(const CudaCase& one, const CudaTask& task) {
  const auto kernels = kernels_of(one);
  std::string text = fmt::format(
      "name = \"corpus\"\nreference = \"{}.cpp:reference\"\n"
      "[params]\nn = {{ default = 64, range = [1, 3000] }}\n[inputs]\nx = \"f32[n]\"\n[outputs]\n{}\n"
      "[workloads]\ntiny = {{ n = 64 }}\ntarget = {{ n = 4096 }}\n"
      "[correctness]\nrandom_workloads = 2\nhard_values = []\n"
      "[cuda]\nsources = [\"{}\"]\nlaunch = [\"{}\"]\n",
      task.name, task.outputs, source_file, fmt::join(kernels, "\", \""));
  // Helpers, which clear and count, need one thread.
  for (const std::string& kernel : kernels)
    text += fmt::format(
        "[[cuda.instances]]\nname = \"{}\"\ngrid = \"{}\"\nblock = {}\nargs = [\"x\", \"y\", \"i32 n\"]\n", kernel,
        kernel.starts_with(one.name) ? one.grid : "1", kernel.starts_with(one.name) ? 256 : one.helper_threads);
  return text;
}

std::string reference_text(const CudaTask& task) {
  return "#include <cudadent/kernel.h>\n#include <stdint.h>\n"
         "static void compute(const float* x, float* y, int64_t n) { " +
         task.reference +
         " }\n"
         "extern \"C\" int reference(const cudadent_call* call) {\n"
         "  const cudadent_tensor* t = call->tensors;\n"
         "  compute((const float*)t[0].data, (float*)t[1].data, t[0].shape[0]);\n"
         "  return 0;\n}\n";
}

bool mentions(const GateResult& gate, const std::string& words) {
  return std::any_of(gate.findings.begin(), gate.findings.end(), [&](const Finding& finding) {
    return fmt::format("{}: {} {} {}", finding.group, finding.what, finding.where, finding.fix).find(words) !=
           std::string::npos;
  });
}

Result<GateResult> judge_case(const TemporaryDirectory& directory, const CudaCase& one) {
  const auto& tasks = cuda_tasks();
  const auto task = std::find_if(tasks.begin(), tasks.end(), [&](const auto& known) { return known.name == one.task; });
  if (task == tasks.end()) return Diagnostic{.message = fmt::format("there is no task '{}'", one.task)};
  std::ofstream(directory.path() / (task->name + ".cpp")) << reference_text(*task);
  std::ofstream(directory.path() / source_file) << cuda_source();
  const auto project = parse_project(project_text(one, *task), (directory.path() / "cudadent.toml").string());
  if (!project) return project.error();
  const auto device = parse_device("virtual:l4");
  if (!device) return device.error();
  Progress quiet(1, true);
  const std::vector<Record> no_history;
  const GateOptions options{.record = false};
  GateContext context{.project = *project,
                      .options = options,
                      .progress = quiet,
                      .seed = fresh_seed(),
                      .history = no_history,
                      .device = *device};
  if (auto prepared = context.prepare(); !prepared) return prepared.error();
  return correctness_gate.run(context);
}

CheatOutcome run_one(const TemporaryDirectory& directory, const CudaCase& one) {
  const auto start = std::chrono::steady_clock::now();
  CheatOutcome outcome{.name = one.name, .what = one.what};
  if (!one.expected_gate.empty()) outcome.expected_gate = one.expected_gate;
  const auto gate = judge_case(directory, one);
  outcome.seconds = seconds_since(start);
  if (!gate) {
    outcome.stopped_at = "build";
    outcome.message = gate.error().to_string();
    return outcome;
  }
  outcome.message = gate->summary;
  if (gate->outcome == Outcome::fails) {
    outcome.stopped_at = gate->gate;
  } else if (gate->outcome != Outcome::holds) {
    outcome.stopped_at = gate->gate + " (not decided)";
  } else if (mentions(*gate, "waves: ")) {
    outcome.stopped_at = "waves";
  }
  outcome.as_expected = outcome.stopped_at == outcome.expected_gate;
  // Refused, but for another reason than its own, is luck.
  if (outcome.as_expected && outcome.expected_gate && !mentions(*gate, one.refused_by)) {
    outcome.as_expected = false;
    outcome.message += fmt::format(" (refused, but nothing says \"{}\")", one.refused_by);
  }
  return outcome;
}

}  // namespace

std::vector<std::string> cuda_cases_in_short() {
  return {"honest_map", "honest_last_cta", "fake_waves",      "kept_for_later",
          "no_barrier", "lanes_in_step",   "waits_for_nobody"};
}

const std::vector<CudaCase>& all_cuda_cases() {
  const std::string gate = "correctness", default_grid = "ceil_div(n, 256)";
  static const std::vector<CudaCase> cases{
      {"honest_map", "an element a thread", "", ""},
      {"honest_template", "a template, by its C++ name", "", "", "map", {"honest_template<4096>"}},
      {"honest_persistent", "a fixed number of CTAs, some without work at small shapes", "", "", "map", {}, "8"},
      {"honest_in_place", "uses the output as its scratch", "", ""},
      {"honest_neighbour", "exchanges through shared memory", "", ""},
      {"honest_heap", "uses malloc and free", "", ""},
      {"honest_printing", "prints", "", ""},
      {"honest_atomics", "sums by atomics, in any order", "", "", "sum", {"clear", "honest_atomics"}},
      {"honest_last_cta", "shuffles, and the last CTA adds up", "", "", "sum"},
      {"honest_triangle", "a causal triangle of unequal CTAs", "", "", "causal"},
      {"honest_chain",
       "CTAs that wait for the one before",
       "",
       "",
       "causal",
       {"clear_carries", "honest_chain"},
       default_grid,
       64},
      {"honest_ragged",
       "rows of different lengths, with CTAs that leave at once",
       "",
       "",
       "ragged",
       {"clear_rows", "honest_ragged"},
       "64 * ceil_div(n, 256)",
       64},
      {"fake_waves", "two CTAs compute, 1,022 return at once", "waves", "2 of 1024 CTAs do work", "map", {}, "1024"},
      {"nothing", "leaves the output as it is", gate, "never written"},
      {"not_at_the_target", "skips the target's shape", gate, "never written"},
      {"input_written", "clears its input", gate, "wrote to input 'x'"},
      {"kept_for_later",
       "keeps its first results on the device and hands them out again",
       gate,
       "initcheck",
       "map",
       {"kept_for_later", "keeping"}},
      {"wrong_once_in_50",
       "counts its calls on the device and is wrong in one of fifty",
       gate,
       "initcheck",
       "map",
       {"wrong_once_in_50", "counting"}},
      {"adds_to_leftovers",
       "adds to what the call before left",
       gate,
       "initcheck",
       "sum",
       {"adds_to_leftovers", "takes_leftovers"}},
      {"heap_leak", "never frees what it allocates", gate, "was not freed by the end of the call"},
      {"output_taken_for_result", "believes that the output is there already", gate, "never written"},
      {"clock_dependent", "adds what the clock says", gate, "expected"},
      {"trap_at_the_target", "ends with a trap", gate, "trap"},
      {"assert_at_the_target", "ends with an assertion", gate, "ssert"},
      {"no_barrier", "lacks a __syncthreads()", gate, "racecheck"},
      {"no_warp_barrier", "lacks a __syncwarp()", gate, "race within a warp"},
      {"first_cta_is_first", "relies on CTA 0 being the first", gate, "racecheck"},
      {"turn_for_cta",
       "relies on CTAs that begin in order, without a race",
       gate,
       "expected",
       "map",
       {"clear_turns", "turn_for_cta"}},
      {"lanes_in_step", "relies on lanes that stay in step", gate, "under schedule adversarial"},
      {"barrier_in_branch", "has a barrier that half of the threads reach", gate, "synccheck"},
      {"waits_for_nobody", "polls a flag that nobody sets", gate, "polls for a value that nobody writes"},
      {"never_ends", "sleeps in a loop for ever", gate, "a loop that never ends"},
      {"shared_never_set", "takes shared memory for zero", gate, "initcheck"},
      {"neighbours_read", "looks behind its buffers for results", gate, "memcheck"},
      {"one_too_many", "writes one element too many", gate, "of 'y'"},
      {"constant_written", "writes to constant memory", gate, "to constant memory"},
      {"misaligned", "reads eight bytes where four are aligned", gate, "misaligned"}};
  return cases;
}

std::vector<CheatOutcome> run_cuda_cases(Progress& progress, const std::vector<std::string>& only) {
  std::vector<CheatOutcome> outcomes;
  const TemporaryDirectory directory;
  const auto toolkit = find_cuda_toolkit();
  const auto& cases = all_cuda_cases();
  for (std::size_t i = 0; i < cases.size() && !interrupted(); ++i) {
    if (!only.empty() && std::find(only.begin(), only.end(), cases[i].name) == only.end()) continue;
    progress.update(fmt::format("{} of {} on a virtual GPU: {}", i + 1, cases.size(), cases[i].name),
                    static_cast<double>(i) / static_cast<double>(cases.size()));
    if (toolkit) {
      outcomes.push_back(run_one(directory, cases[i]));
      continue;
    }
    outcomes.push_back({.name = cases[i].name, .what = cases[i].what, .not_run = toolkit.error().message});
  }
  return outcomes;
}

}  // namespace flashmoe::workflow
