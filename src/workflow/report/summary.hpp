// The summary of a run: before and after, each change with its effect, bottlenecks, time against plan, money, next
// goals; and runs side by side. Figures of different evidence are never put into one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/prices.hpp"
#include "workflow/project/project.hpp"
#include "workflow/statistics/sequential.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

struct Record;

// Against the project's baseline, as a gate run measured it.
struct Speed {
  double speedup = 0;  // the mean
  double lower = 0;    // its bound
  std::string evidence{};
};

// All changes that were kept, on one workload and on evidence of one kind and place.
struct KeptGain {
  std::string workload{}, evidence{};
  int changes = 0;
  double gain = 0;  // ratio - 1
};

struct ChangeSummary {
  std::string id{};
  std::string change{};  // the note, else the candidate's name
  std::string commit{};
  std::optional<std::string> phase{}, workload{};
  std::string verdict{};
  std::optional<Gain> gain{};
  std::size_t pairs = 0;
  std::optional<double> minimum_detectable_gain{};
  std::string problem{}, fix{};
  double seconds = 0;
  std::string comparison{};  // its identity
  std::string evidence{};
};

struct GateSummary {
  std::string id{};
  std::string commit{};
  std::string verdict{};
  std::string what{};
  double seconds = 0;
  std::string evidence{};
};

struct RunSummary {
  std::string run{};
  std::string project{}, device{};
  std::string first{}, last{};  // times of its records
  std::optional<MachineFacts> environment{};
  int records = 0;
  int left_out = 0;  // records that are not as they were written, or by somebody else in this writer's name
  Named<Speed> before{}, after{};  // by workload; before: on the evidence of after
  std::vector<KeptGain> kept{};
  std::vector<ChangeSummary> changes{};
  std::vector<GateSummary> gates{};
  std::vector<std::string> bottlenecks{};  // sentences
  double busy_seconds = 0;                 // in which cudadent ran
  double seconds = 0;                      // from the beginning of the first record to the end of the last
  std::optional<double> planned_minutes{};
  std::optional<int> planned_iterations{};
  Spent cost{};  // of `seconds`: what is rented is paid while one thinks
  std::vector<std::string> next_goals{};
  std::string machine_advice{};  // empty: the machine costs nothing
};

// The name of the run that `name` means: a run, or the run of the record with that id.
[[nodiscard]] Result<std::string> find_run(const std::vector<Record>& records, const std::string& name);
// `project` is where the plan comes from; without it the plan is unknown.
[[nodiscard]] RunSummary run_summary(const std::vector<Record>& records, const std::string& run,
                                     const std::optional<Project>& project);
[[nodiscard]] std::string markdown_of(const RunSummary& summary);

// Every run there is, in the order in which they began.
[[nodiscard]] std::vector<RunSummary> all_runs(const std::vector<Record>& records,
                                               const std::optional<Project>& project);
[[nodiscard]] std::string runs_markdown(const std::vector<RunSummary>& runs);

}  // namespace flashmoe::workflow
