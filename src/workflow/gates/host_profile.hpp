// What a call of host code costs on this machine: its time, the processor's counters where they may be read, and what
// moving its bytes takes at least.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "workflow/advise/host.hpp"
#include "workflow/gates/context.hpp"

namespace flashmoe::workflow {

struct HostProfile {
  HostCall call{};
  std::string no_counters{}, no_counters_fix{};  // why nothing was counted; empty: it was
  std::optional<Finding> wrong{};                // the result is not the reference's
};

// The kernel of a context that is prepared; `judge`: the reference is asked whether it is right. An error carries the
// kernel's code where it is the kernel's own.
[[nodiscard]] Result<HostProfile> profile_host_call(const GateContext& context, const Workload& workload,
                                                    std::uint64_t seed, bool judge);

// Bytes per second, read and written, of threads that copy: `bytes` in all.
[[nodiscard]] double copying_speed(double bytes, int threads);

}  // namespace flashmoe::workflow
