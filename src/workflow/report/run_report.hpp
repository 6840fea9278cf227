// All that the report of a run shows: its summary, the last gates, what was timed block by block, and what the model
// says about where it began and ended. Pages and pictures are made of this alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/predict/prediction.hpp"
#include "workflow/project/project.hpp"
#include "workflow/report/charts.hpp"
#include "workflow/report/summary.hpp"

namespace flashmoe::workflow {

struct AnnotatedLine {
  int number = 0;
  std::string text{};
  double share = 0;                                           // of the cycles of all warps, predicted
  std::string waits{};                                        // for what they mostly wait
  double executions = 0;                                      // SASS instructions, by warps of the heaviest CTA
  double bank_conflicts = 0, sectors = 0, sectors_ideal = 0;  // counted on the virtual GPU, of the whole grid
};

struct AnnotatedFile {
  std::string name{};  // inside of the repository, or the file's own
  double share = 0;
  std::vector<AnnotatedLine> lines{};  // hot ones and their neighbours, in order
};

// A version of the kernel as the model sees it.
struct PredictedVersion {
  std::string label{};  // "start"
  std::string commit{};
  PredictionRun prediction{};
  std::optional<RooflinePoint> place{};  // unset: no arithmetic or no bytes were counted
  std::vector<AnnotatedFile> sources{};  // the hottest first
};

// Samples of one comparison or gate run.
struct TimedBlocks {
  std::string record{};
  std::string what{};
  std::string evidence{}, kind{};
  std::string unit{};
  std::optional<double> equal{};  // the value of no difference
  std::vector<ChartSamples> rows{};
};

struct RunReport {
  RunSummary summary{};
  std::optional<Record> gate{};     // the last of the run; else the last on its device
  std::optional<Record> profile{};  // likewise
  std::vector<Record> gate_runs{};  // of the run
  std::vector<TimedBlocks> timed{};
  std::vector<PredictedVersion> predicted{};
  std::string not_predicted{};  // why there is none; empty: there is
  std::vector<Roof> roofs{};
  std::vector<double> ladder{};                // of the project
  std::string made{};                          // when
  std::vector<std::string> refused_records{};  // that are not as they were written, or somebody else's
};

struct ReportOptions {
  std::string run{};  // a run, or a record of one; empty: the last
  bool predict = true;
  std::uint64_t missing = 0;  // records, as the journal says
};

[[nodiscard]] Result<RunReport> make_report(const std::vector<Record>& records, const std::optional<Project>& project,
                                            const ReportOptions& options, Progress& progress);

// One file without anything from outside: no script, no font, no request.
[[nodiscard]] std::string html_of(const RunReport& report);
// 1200 x 630, SVG.
[[nodiscard]] std::string picture_of(const RunReport& report);

// ---- parts of it --------------------------------------------------------------------------------------------------

// Additions and multiplications that a launch executed: 1 each, a fused multiply-add 2, an mma 2 m n k.
[[nodiscard]] double flops_of(const LaunchReport& launch);
// Bytes that came from DRAM or went there (modelled).
[[nodiscard]] double dram_bytes_of(const LaunchReport& launch);
[[nodiscard]] std::optional<RooflinePoint> place_of(const PredictionRun& run, const std::string& name);
[[nodiscard]] std::vector<Roof> roofs_of(const std::string& gpu);
// Lines of a launch beside their source; `root` is where the repository is.
[[nodiscard]] std::vector<AnnotatedFile> annotated_sources(const LaunchPrediction& launch, const std::string& root);
[[nodiscard]] std::vector<TimedBlocks> timed_blocks(const std::vector<Record>& records, const std::string& run);

}  // namespace flashmoe::workflow
