// Orders in which a virtual GPU runs warps and CTAs. One order repeats itself to the bit; what another would do,
// another schedule shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

struct VirtualSchedule {
  std::string name{};  // "natural", "adversarial, seed 12"
  std::vector<std::string> environment{};
};

// Beside the seeded one that the gate runs everything under: the natural order, and two adversarial ones, which part
// lanes, give short turns, and let asynchronous copies land at once or at any time. They follow from the seed.
[[nodiscard]] std::vector<VirtualSchedule> virtual_schedules(std::uint64_t seed);

// The same kernel; of the checks those that do not judge orders by themselves, which have seen this kernel already.
[[nodiscard]] Runnable under_schedule(Runnable runnable, const VirtualSchedule& schedule);

}  // namespace flashmoe::workflow
