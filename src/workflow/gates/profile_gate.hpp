// Gate 4: why is it not faster? Names the one bottleneck, from what the device can count. Runs by itself where the
// performance gate has not shown that the kernel is at least as fast as the baseline; `cudadent profile` asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

struct ProfileRequest {
  std::string device{};    // empty: FLASHMOE_DEVICE, else the project's GPU, or cpu where it has none
  std::string workload{};  // empty: the target workload
  std::uint64_t seed = 0;  // 0: a fresh one
  int threads = 1;
  bool debug = false;  // also a kernel that is wrong: no evidence then
  bool record = true;
};

// What there is to show.
struct Profile {
  GateResult result{};           // with ProfileFacts
  ProfileRun run{};              // with launches where the device counts them
  std::vector<Advice> advice{};  // the most worthwhile first
  Record record{};               // without an id when it was not written
  Finding record_problem{};      // why not
};

// Errors: what keeps the kernel from being built or run.
[[nodiscard]] Result<Profile> profile_project(const Project& project, const ProfileRequest& request,
                                              Progress& progress);
// A Progress for it has as many steps.
inline constexpr int profile_gate_steps = 2;

// The report for people.
[[nodiscard]] std::string profile_text(const Profile& profile);

// The record of a profile that ran, among other gates or alone.
[[nodiscard]] Record profile_record(const GateContext& context, const GateResult& result);

extern const Gate profile_gate;

}  // namespace flashmoe::workflow
