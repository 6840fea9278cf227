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
#include "workflow/verdict/counter_change.hpp"
#include "workflow/verdict/named.hpp"
#include "workflow/verdict/predicted_gain.hpp"

namespace flashmoe::workflow {

struct Record;

// Against the project's baseline, as a gate run measured it.
struct Speed {
  double speedup = 0;  // the mean
  double lower = 0;    // its bound
  std::string evidence{};
};

// A figure of the whole run at its start and at its end.
struct Endpoints {
  std::string what{};  // with its unit
  double before = 0, after = 0;
  bool more_is_better = false;
  std::string evidence{};
};

// All changes that were kept, on one workload and on evidence of one kind and place.
struct KeptGain {
  std::string workload{}, evidence{};
  int changes = 0;
  double gain = 0;  // ratio - 1
};

// What became of a change that was tried.
enum class Fate {
  kept,
  left,     // right, and not worth keeping
  refused,  // wrong, not allowed, or it does not get through a gate
  open,     // nobody has decided: a person does, or it was stopped
};
[[nodiscard]] const char* name_of(Fate fate);

struct ChangeSummary {
  std::string id{};      // of the comparison's record; of the iteration's where it did not get so far
  std::string change{};  // the note, else the candidate's name
  std::string commit{};
  Fate fate = Fate::open;
  std::string why{};               // on what ground
  std::string proposer{}, rule{};  // of an iteration
  std::vector<std::string> files{};
  std::optional<std::string> phase{}, workload{};
  std::string verdict{};
  std::optional<Gain> gain{};                // measured, or rehearsed: the evidence says
  std::optional<PredictedGain> predicted{};  // where there is no clock
  std::vector<CounterChange> counters{};     // there, too
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
  std::uint64_t missing = 0;  // records of the journal that are gone, of this run or another
  int left_out = 0;           // records that are not as they were written, or by somebody else in this writer's name
  Named<Speed> before{}, after{};  // by workload; before: on the evidence of after
  std::vector<Endpoints> endpoints{};
  std::vector<KeptGain> kept{};
  std::vector<ChangeSummary> changes{};
  std::vector<GateSummary> gates{};
  std::vector<std::string> bottlenecks{};  // sentences
  double busy_seconds = 0;                 // in which cudadent ran
  double seconds = 0;                      // from the beginning of the first record to the end of the last
  std::optional<double> planned_minutes{};
  std::optional<int> planned_iterations{};
  std::optional<double> planned_dollars{};
  std::optional<Prices> prices{};  // unset: none was given
  Spent cost{};                    // of `seconds`: what is rented is paid while one thinks
  std::string stopped{};           // why a loop ended; empty: none did
  std::string start{}, end{};      // commits of it
  std::vector<std::string> next_goals{};
  std::string machine_advice{};  // empty: the machine costs nothing
};

// The name of the run that `name` means: a run, or the run of the record with that id.
[[nodiscard]] Result<std::string> find_run(const std::vector<Record>& records, const std::string& name);
// `project` is where the plan comes from; without it the plan is unknown.
[[nodiscard]] RunSummary run_summary(const std::vector<Record>& records, const std::string& run,
                                     const std::optional<Project>& project);
[[nodiscard]] std::string markdown_of(const RunSummary& summary);
// Measured, predicted or counted, with its label; "not measured".
[[nodiscard]] std::string effect_text(const ChangeSummary& change);
// "17.2x fewer", "1.31x as fast"
[[nodiscard]] std::string factor_text(const Endpoints& one);
// Sentences about what was spent and what is left of what was planned.
[[nodiscard]] std::string money_text(const RunSummary& summary);
[[nodiscard]] std::string time_text(const RunSummary& summary);

// Every run there is, in the order in which they began.
[[nodiscard]] std::vector<RunSummary> all_runs(const std::vector<Record>& records,
                                               const std::optional<Project>& project);
[[nodiscard]] std::string runs_markdown(const std::vector<RunSummary>& runs);

}  // namespace flashmoe::workflow
