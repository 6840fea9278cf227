// Lets operator new throw. A test takes part by linking allocation_failure.cpp into its own program, whose operators
// replace those of every library in it.
#pragma once

#include <cstdint>

namespace flashmoe::testing {

// The `at`-th allocation of this thread from now on throws std::bad_alloc, once; 0 is the next one, -1: none does.
void fail_allocation(int64_t at);
// Of this thread, so far.
[[nodiscard]] int64_t failed_allocations();

}  // namespace flashmoe::testing
