// Counts every allocation of the process. A test takes part by linking allocation_count.cpp into its own program: glibc
// lets a program replace malloc, and everybody's, the library's included, comes through there. The sanitizers replace
// malloc themselves, and the count is left to the plain builds.
#pragma once

#include <cstdint>

#include "support/sanitizers.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || FMS_HAS_FEATURE(address_sanitizer) || \
    FMS_HAS_FEATURE(thread_sanitizer)
#define FMS_COUNT_ALLOCATIONS 0
#else
#define FMS_COUNT_ALLOCATIONS 1
#endif

namespace flashmoe::testing {

[[nodiscard]] int64_t allocation_count();
// Whether the count works: allocates with malloc and with new, in a way that no compiler leaves out.
[[nodiscard]] bool allocations_are_counted();

}  // namespace flashmoe::testing
