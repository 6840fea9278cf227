// What a child may touch, enforced by the kernel from its first instruction on: files by Landlock, sockets by seccomp.
// Where the kernel has no Landlock the files stay open; confinement_here() says which of the two hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
// A ruleset to be entered after a fork; -1: there is no Landlock. The caller closes it.
[[nodiscard]] int make_ruleset(const Confinement& confinement);
// Async-signal-safe. False when a rule that should hold could not be set.
[[nodiscard]] bool enter_confinement(int ruleset);
}  // namespace detail

}  // namespace flashmoe
