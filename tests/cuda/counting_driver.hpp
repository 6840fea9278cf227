// A CUDA driver that does nothing but count: what the library asks of a driver, how often, and when. Loaded as
// FLASHMOE_DRIVER; a program that also links it sees the same counts.
#pragma once

#include <cstdint>
#include <string>

#include "support/tree_for_test.hpp"

#define FMS_COUNTING_DRIVER_API extern "C" __attribute__((visibility("default")))

// Calls of one function since the last reset; -1: there is no such function.
FMS_COUNTING_DRIVER_API std::int64_t counting_driver_calls(const char* function);
// Of all functions.
FMS_COUNTING_DRIVER_API std::int64_t counting_driver_all_calls();
FMS_COUNTING_DRIVER_API void counting_driver_reset();

// What this thread launched last: steady_clock nanoseconds when cuLaunchKernel was entered, and its CTAs.
FMS_COUNTING_DRIVER_API std::int64_t counting_driver_launch_time();
FMS_COUNTING_DRIVER_API std::int64_t counting_driver_launch_ctas();

namespace flashmoe {

[[nodiscard]] inline std::string counting_driver_path() {
  return in_build("tests/cuda/libcounting_driver.so");
}

}  // namespace flashmoe
