// What a child may touch, enforced by the kernel from its first instruction on: files by Landlock, sockets and memory
// that is shared by a name by seccomp; its memory and threads are limited (process_limits.hpp). Where the kernel has no
// Landlock the files stay open; confinement_here() says which of the two hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/process_limits.hpp"

namespace flashmoe {

// Paths that do not exist are left out. What is readable may also be executed.
struct Confinement {
  std::vector<std::string> readable{};  // beside the system's own: /usr, /lib, /proc, ...
  std::vector<std::string> writable{};  // beside /dev/null
};

// The ABI version of Landlock; 0: this kernel has none, or it is switched off.
[[nodiscard]] int landlock_version();
// "files: Landlock 7; network: seccomp", or what is missing.
[[nodiscard]] std::string confinement_here();

// The variables of this process that foreign code may see: where things are and how to speak, no keys and no names.
[[nodiscard]] std::vector<std::string> short_environment();

namespace detail {
// What is made before a fork to be entered after it.
struct Cage {
  int ruleset = -1;  // -1: there is no Landlock. The caller closes it
  ProcessLimits limits{};
};
[[nodiscard]] Cage make_cage(const Confinement& confinement);
// Async-signal-safe. False when a rule that should hold could not be set.
[[nodiscard]] bool enter(const Cage& cage);
}  // namespace detail

}  // namespace flashmoe
