// Whether a user may count on an NVIDIA GPU at all. Drivers keep the counters to administrators since 2019, and most
// rented machines leave it so.
#pragma once

#include <optional>
#include <string>

#include "support/result.hpp"

namespace flashmoe::runtime {

// What NVIDIA's kernel module says of its settings.
inline constexpr const char* driver_parameters_file = "/proc/driver/nvidia/params";

// True: RmProfilingAdminOnly is 1 there. Unset: there is no such file, or it does not say.
[[nodiscard]] std::optional<bool> counters_are_for_administrators(
    const std::string& parameters_file = driver_parameters_file);

// Whether that is what a tool of NVIDIA's says.
[[nodiscard]] bool says_that_counters_are_locked(const std::string& output);
// What to tell somebody who may not count, and what the administrator has to do. `who`: "CUPTI", "ncu".
[[nodiscard]] Diagnostic locked_counters(const std::string& who);

}  // namespace flashmoe::runtime
