// What a run measured for the baseline of one workload, and what may explain that another run measures something else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workflow/journal/facts.hpp"

namespace flashmoe::workflow {

// What was not recorded is unset, and no difference.
struct BaselineFacts {
  std::optional<std::string> commit{};         // "none" outside a repository
  std::optional<std::string> baseline_file{};  // the beginning of its SHA-256
  std::optional<int> threads{};
  std::optional<std::string> host{};
  std::optional<std::string> cpu{};
  std::optional<unsigned> cores{};
  std::optional<std::string> kernel{};
  std::optional<CompilerVersions> compilers{};
  std::optional<std::string> baseline_version{};
  std::optional<std::map<std::string, double>> values{};  // of the workload
  bool operator==(const BaselineFacts&) const = default;
};

struct BaselineRecord {
  double seconds = 0;
  BaselineFacts facts{};
  bool operator==(const BaselineRecord&) const = default;
};

// What differs, as sentences: "commit: a1b2c3 then, d4e5f6 now".
[[nodiscard]] std::vector<std::string> differences(const BaselineFacts& then, const BaselineFacts& now);

}  // namespace flashmoe::workflow
