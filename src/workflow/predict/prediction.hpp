// A project's kernel on a GPU that is not here: its PTX runs once on the virtual GPU, which says the way its warps
// went; the SASS of the very cubin that ships says what they executed on the way; src/predict says what that takes.
// Always "predicted", never "measured".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "predict/larger_grid.hpp"
#include "predict/prediction.hpp"
#include "predict/ptx_run.hpp"
#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/gpu/launch_report.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/verdict/evidence.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// How large a predicted difference between two versions of a kernel must be before it is acted on. A judgement until a
// card has spoken: published points are of different kernels and shapes, none is "the same kernel, one change". Over
// those the sign is right in nine of ten cases from here on (docs/predict-validation.md, "Sign right, by predicted
// gap").
inline constexpr double least_believed_gain = 0.10;

// Where the warps' cycles go, by line of the CUDA source.
struct LinePressure {
  std::string file{};
  int line = 0;
  double executions = 0;  // SASS instructions, by warps of the heaviest CTA
  double share = 0;       // of all cycles of all warps
  std::array<double, predict::stalls> cycles{};
  [[nodiscard]] predict::Stall mostly() const;  // the largest of them, issuing left out
};

struct LaunchPrediction {
  LaunchReport report{};
  predict::Prediction prediction{};
  double unmatched_weight = 0;
  std::vector<LinePressure> lines{};  // by file and line

  [[nodiscard]] bool is_predicted() const { return prediction.predicted(); }
  [[nodiscard]] std::array<double, predict::stalls> waits() const;  // sums over the lines
};

struct PredictionRun {
  std::string project{};  // or the name of the report
  std::string device{};
  std::string workload{};    // empty: of a report
  std::string image_hash{};  // SHA-256 of what ran; empty: of a report
  double boost_clock_mhz = 0;
  std::vector<LaunchPrediction> launches{};

  [[nodiscard]] bool is_predicted() const;        // all launches are
  [[nodiscard]] double cycles() const;            // of the call at boost: DRAM and the gaps between launches count, too
  [[nodiscard]] predict::Time boost() const;      // of all launches and the gaps between them
  [[nodiscard]] predict::Time sustained() const;  // 0: no such clock is known
  [[nodiscard]] const LaunchPrediction* longest() const;  // nullptr: no launch
  [[nodiscard]] Evidence evidence() const;
};

// Of the launches, in their order, if they are to be predicted larger than they ran (predict/larger_grid.hpp). Empty:
// as they ran.
using Grids = std::vector<predict::Grid>;

// "64,8,1"
[[nodiscard]] Result<predict::Grid> parse_grid(const std::string& text);

struct PredictionRequest {
  std::string device{};                 // empty: FLASHMOE_DEVICE, else the project's GPU
  std::string workload{};               // empty: the target workload
  std::uint64_t seed = 0;               // of the inputs; 0: a new one
  const Runnable* reference = nullptr;  // a result that it refuses is not predicted; null: nobody judges
  Grids grids{};
};

inline constexpr int prediction_steps = 3;  // of a Progress

[[nodiscard]] Result<PredictionRun> predict_project(const Project& project, const PredictionRequest& request,
                                                    Progress& progress);

// Anybody's program that ran on a virtual GPU: what it left behind there (VGPU_REPORT, with VGPU_PATHS=1), and the
// cubins of the PTX that ran, compiled with -lineinfo.
struct ReportRequest {
  std::string report{};
  std::vector<std::string> cubins{};
  std::string device{};  // the one that it ran on; empty: FLASHMOE_DEVICE
  Grids grids{};
};
[[nodiscard]] Result<PredictionRun> predict_report(const ReportRequest& request, Progress& progress);

// A launch as its report has it, with SASS of its kernel; `grid`: a larger one than it had.
[[nodiscard]] Result<LaunchPrediction> predict_launch(const LaunchReport& report,
                                                      const std::vector<predict::SassKernel>& sass, const Gpu& gpu,
                                                      const std::optional<predict::Grid>& grid = {});

struct PredictionView {
  bool lines = false;  // the pressure beside every line of the sources
};
[[nodiscard]] std::string prediction_text(const PredictionRun& run, const PredictionView& view);
// "12.3 us at boost (8.6 to 16.0), limited by latency: barrier"; "not predicted: ..."
[[nodiscard]] std::string prediction_summary(const PredictionRun& run);

}  // namespace flashmoe::workflow
