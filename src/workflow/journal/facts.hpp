// What a record says about the machine and the tree it was made on. Facts that cannot be learned are unset, never a
// reason to lose the record.
#pragma once

#include <optional>
#include <string>

namespace flashmoe::workflow {

struct CompilerVersions {
  std::optional<std::string> cxx{};
  std::optional<std::string> clang{};
  bool operator==(const CompilerVersions&) const = default;
};

struct MachineFacts {
  std::optional<std::string> host{};
  std::optional<std::string> cpu{};
  unsigned cores = 0;
  double memory_gib = 0;
  std::optional<std::string> kernel{};
  CompilerVersions compilers{};
  std::optional<std::string> git{};
  bool operator==(const MachineFacts&) const = default;
};

// Asked once per process.
[[nodiscard]] const MachineFacts& machine_facts();

struct TreeState {
  std::string commit;  // empty: no repository
  bool dirty = false;  // tracked files differ from the commit
};
[[nodiscard]] TreeState tree_state(const std::string& directory);

}  // namespace flashmoe::workflow
