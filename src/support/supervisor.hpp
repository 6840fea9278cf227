// The fork between a parent and its child: see process.hpp. Only async-signal-safe calls are made after the fork, since
// the parent may have threads.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/result.hpp"

namespace flashmoe::detail {

// The parent's ends. Bytes written to `lifeline`: 'T' asks the group to end, 'K' kills it; closing it kills, too.
struct Spawned {
  pid_t supervisor = -1;
  pid_t child = -1;
  int in = -1, out = -1, err = -1;  // -1 when closed
  int lifeline = -1;
  int status = -1;  // an int in wait(2)'s format, once everything below the supervisor is dead
};

[[nodiscard]] Result<Spawned> spawn(const Command& command, const std::vector<int>& keep_fds);

}  // namespace flashmoe::detail
