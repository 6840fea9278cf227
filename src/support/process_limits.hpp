// How much of the machine a process with foreign code gets, and which of root's powers it keeps.
#pragma once

#include <cstdint>

namespace flashmoe {

struct ProcessLimits {
  std::uint64_t private_bytes = 0;  // memory of its own, touched or not; 0: no limit
  std::uint64_t tasks = 0;          // processes and threads of its user, those of others counted too; 0: no limit
};

// Three quarters of the machine's memory, and a thousand threads more than run now. Sanitizers reserve terabytes: a
// build with one has no limit of memory.
[[nodiscard]] ProcessLimits limits_for_foreign_code();

namespace detail {
// Async-signal-safe. Where memory runs out the process is the first that the system ends. The number of tasks does not
// bind root.
[[nodiscard]] bool enter_limits(const ProcessLimits& limits);
// Of root's powers only those over files stay, now and for whatever it executes. Async-signal-safe.
void drop_capabilities();
}  // namespace detail

}  // namespace flashmoe
