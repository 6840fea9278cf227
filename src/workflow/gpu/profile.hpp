// What a kernel does on a GPU: on a virtual one the counters are the virtual GPU's, on a card workflow/card makes the
// same of what CUPTI, ncu or the driver say. What to change first is said by workflow/advise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gpu/launch_report.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/verdict/counter_change.hpp"
#include "workflow/verdict/profile_facts.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// What a rule makes of the counters of a launch.
struct Advice {
  std::string rule{};                // "grid"
  std::string bottleneck{};          // "the grid is too small"
  std::string says{};                // what was counted, in words with figures
  std::string where{};               // file:line, when one line is to blame
  std::vector<CountedLine> lines{};  // with most of what the rule points at, else of the instructions; at most three
  std::string fix{};                 // the one change
  std::string phase{};               // of Thresholds::least_gain
  CounterChange expected{};          // the counter that has to move, and how far at least
  std::string stays_when_fake{};     // the counter that a change in name only leaves as it is
  double gain = 1;                   // expected factor on the time of all launches: an estimate from counts
};

// A rule that could not be asked of a launch.
struct UnaskedRule {
  std::string rule{};
  std::vector<std::string> missing{};  // counters
};

struct LaunchProfile {
  LaunchReport report{};
  double share = 1;              // of the instructions that all launches executed
  std::vector<Advice> advice{};  // once rules were asked; the most worthwhile first
  std::vector<UnaskedRule> unasked{};
};

struct ProfileRun {
  std::string project{};
  std::string device{};
  std::string workload{};
  std::string image_hash{};  // SHA-256 of what ran
  std::vector<LaunchProfile> launches{};
  std::vector<Finding> findings{};  // of the checks, which run with it
  std::string counted_by{};         // on a card: "CUPTI", "ncu", "nobody"; empty: a virtual GPU
  std::string degraded{};           // why nobody counted; empty: somebody did
  std::string degraded_fix{};
};

struct ProfileOptions {
  std::string device{};    // empty: FLASHMOE_DEVICE, else the project's GPU
  std::string workload{};  // empty: the target workload
  std::uint64_t seed = 0;
};

// The named workload, or the target.
[[nodiscard]] Result<Workload> profiled_workload(const Project& project, const std::string& name);

struct CountedCall {
  const Runnable& kernel;     // built, with its reports
  const std::string& report;  // in this file
  const Workload& workload;
  std::uint64_t seed = 0;
  const Runnable* reference = nullptr;  // its word on the result is a finding; null: nobody judges
};
// The gates judge a kernel that does not run; in a profile there is only nothing to show.
[[nodiscard]] Diagnostic could_not_profile(const RunError& error);
// One call of a kernel that is built already.
[[nodiscard]] Result<ProfileRun> count_call(const Project& project, const DeviceSelector& device,
                                            const CountedCall& call);

// How many steps a Progress for run_profile has.
inline constexpr int profile_steps = 2;

[[nodiscard]] Result<ProfileRun> run_profile(const Project& project, const ProfileOptions& options, Progress& progress);
// Launches weigh by the instructions they executed; where nobody counted these they keep the shares they have.
void weigh_by_instructions(std::vector<LaunchProfile>& launches);
[[nodiscard]] std::string profile_text(const ProfileRun& run);

}  // namespace flashmoe::workflow
