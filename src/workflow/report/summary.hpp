// The summary of a run: before and after, each change with its effect, time against plan, cost, next goals.
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
};

struct GateSummary {
  std::string id{};
  std::string commit{};
  std::string verdict{};
  std::string what{};
  double seconds = 0;
};

struct RunSummary {
  std::string run{};
  std::string project{}, device{};
  std::string first{}, last{};  // times of its records
  std::optional<MachineFacts> environment{};
  int records = 0;
  Named<Speed> before{}, after{};  // by workload
  double kept_gain = 0;            // of all changes that were kept, as ratio - 1
  std::vector<ChangeSummary> changes{};
  std::vector<GateSummary> gates{};
  double seconds = 0;
  std::optional<double> planned_minutes{};
  std::optional<int> planned_iterations{};
  Spent cost{};
  std::vector<std::string> next_goals{};
  std::string machine_advice{};  // empty: the machine costs nothing
};

// The name of the run that `name` means: a run, or the run of the record with that id.
[[nodiscard]] Result<std::string> find_run(const std::vector<Record>& records, const std::string& name);
// `project` is where the plan comes from; without it the plan is unknown.
[[nodiscard]] RunSummary run_summary(const std::vector<Record>& records, const std::string& run,
                                     const std::optional<Project>& project);
[[nodiscard]] std::string markdown_of(const RunSummary& summary);

}  // namespace flashmoe::workflow
