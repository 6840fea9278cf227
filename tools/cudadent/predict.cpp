// cudadent predict: what a kernel would take on a GPU that is not here, what limits it, and how far to believe that.
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/output/prediction_json.hpp"
#include "workflow/predict/prediction.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::PredictionRequest request;
  workflow::ReportRequest program;
  std::vector<std::string> grids;
  workflow::PredictionView view;
  JsonFlag json;
  bool quiet = false;
};

int show(const Flags& flags, const workflow::PredictionRun& prediction, const std::string& next) {
  const bool is_predicted = prediction.is_predicted();
  const int code = exit_code(is_predicted ? workflow::Outcome::holds : workflow::Outcome::inconclusive);
  if (flags.json) {
    std::cout << prediction_json(
        answer_of("predict", flags.json, code, is_predicted ? "" : workflow::codes::predict_abstains, next), prediction,
        flags.view.lines);
  } else {
    std::cout << prediction_text(prediction, flags.view) << last_line(prediction_summary(prediction), next);
  }
  return code;
}

int run(const Flags& flags) {
  Progress progress(workflow::prediction_steps, flags.quiet);
  workflow::Grids grids;
  for (const std::string& text : flags.grids) {
    const auto grid = workflow::parse_grid(text);
    if (!grid) return fail("predict", flags.json, grid.error());
    grids.push_back(*grid);
  }
  if (!flags.program.report.empty()) {
    workflow::ReportRequest program = flags.program;
    program.device = flags.request.device;
    program.grids = grids;
    const auto prediction = workflow::predict_report(program, progress);
    if (!prediction) return fail("predict", flags.json, prediction.error());
    return show(flags, *prediction, "cudadent run --device " + prediction->device + " -- PROGRAM");
  }
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("predict", flags.json, project.error());
  workflow::PredictionRequest request = flags.request;
  request.grids = grids;
  const auto prediction = workflow::predict_project(*project, request, progress);
  if (!prediction) return fail("predict", flags.json, prediction.error());
  // Of what limits it the counters know more: which line, and what to change.
  return show(flags, *prediction,
              "cudadent profile" + workflow::project_argument(project->directory) + " --device " + prediction->device);
}

constexpr const char* manual =
    R"(Predicts what the kernel of a project takes on a GPU that is not here: cycles of the SM clock first, what limits it, and
from there the time at the boost clock and, where one is known, at the sustained clock. Nothing is measured, nothing is
fitted to the kernel, and the result is not judged (cudadent gate does that).
One call runs on the virtual GPU, which says the way its warps went; nvdisasm says what SASS they met on it; one SM is
simulated cycle by cycle over that, then the grid. Absolute times under 10 us are an interval of about 30 %.
--lines shows where the warps' cycles go, beside the source.
Where the model was not held against measurements (wgmma, TMA, a GPU whose L2 share decides, a path that does not fit)
nothing is predicted, and the reason is told.
Any other program is predicted from what it left behind on a virtual GPU: run it with VGPU_PATHS=1 and VGPU_REPORT=FILE,
and hand in --report FILE and the --cubin of every kernel (of the PTX that ran, compiled with -lineinfo).
A launch may be predicted larger than it ran, where heads or sequences of a batch do the same beside one another: run one
of them, and name the whole grid with --grid, once for each launch. Along an axis the CTAs that ran repeat.
Needs nvdisasm (NVDISASM, PATH, beside nvcc).
Exit codes: 0 predicted, 3 not predicted.

Examples:
  cudadent predict examples/attention_naive --device virtual:l4
  cudadent predict --lines
  cudadent predict --workload small --json
  cudadent predict --report report.jsonl --cubin kernel.cubin --device virtual:l4
  cudadent predict --report one_head.jsonl --cubin kernel.cubin --grid 64,32,1 --device virtual:l4)";

}  // namespace

Command predict_command() {
  auto flags = std::make_shared<Flags>();
  workflow::PredictionRequest& request = flags->request;
  return {.name = "predict",
          .about = "What it would take on a GPU that is not here, and what limits it",
          .manual = manual,
          .options =
              {{.names = "project",
                .value = &flags->project,
                .about = "Directory with cudadent.toml",
                .shows_default = true},
               {.names = "--device",
                .value = &request.device,
                .about = "virtual:<gpu> (default: FLASHMOE_DEVICE, else the GPU of cuda.device)"},
               {.names = "--workload", .value = &request.workload, .about = "Which workload (default: the target)"},
               {.names = "--seed", .value = &request.seed, .about = "Seed of the inputs (default: a new one)"},
               {.names = "--report",
                .value = &flags->program.report,
                .about = "Instead of a project: the VGPU_REPORT of a program that ran with VGPU_PATHS=1"},
               {.names = "--cubin", .value = &flags->program.cubins, .about = "With --report: a cubin of its kernels"},
               {.names = "--grid",
                .value = &flags->grids,
                .about = "X,Y,Z, for each launch: a larger grid than it ran with, along which its CTAs repeat"},
               {.names = "--lines", .value = &flags->view.lines, .about = "The pressure on every source line, too"},
               json_option(flags->json, "The prediction as JSON on stdout"),
               {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
