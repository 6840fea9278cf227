// What a kernel does on a virtual GPU, and what to change first. The counters are the virtual GPU's; the rules turn
// them into words, the largest expected gain first: too small a grid, uneven CTAs, bank conflicts, occupancy,
// uncoalesced access.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/gpu/launch_report.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct Advice {
  std::string rule{};   // "grid", "balance", "bank conflicts", "occupancy", "coalescing"
  std::string says{};   // what was counted, in words with figures
  std::string where{};  // file:line, when one line is to blame
  std::string fix{};
};

struct LaunchProfile {
  LaunchReport report{};
  double share = 1;              // of the instructions that all launches executed
  std::vector<Advice> advice{};  // the most worthwhile first; empty: no rule applies
};

struct ProfileRun {
  std::string project{};
  std::string device{};
  std::string workload{};
  std::string image_hash{};  // SHA-256 of what ran
  std::vector<LaunchProfile> launches{};
  std::vector<Finding> findings{};  // of the checks, which run with it
};

struct ProfileOptions {
  std::string device{};    // empty: FLASHMOE_DEVICE, else the project's GPU
  std::string workload{};  // empty: the target workload
  std::uint64_t seed = 0;
};

// How many steps a Progress for run_profile has.
inline constexpr int profile_steps = 2;

[[nodiscard]] Result<ProfileRun> run_profile(const Project& project, const ProfileOptions& options, Progress& progress);
[[nodiscard]] std::vector<Advice> advise(const LaunchReport& launch);
[[nodiscard]] std::string profile_text(const ProfileRun& run);

}  // namespace flashmoe::workflow
