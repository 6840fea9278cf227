// Records of a search that several processes share: the candidates of a batch, and what one of them was counted to do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

// Files by their path in the project; without a content the file is to go. With its parent it makes the commit again.
struct BatchCandidate {
  std::string commit{};
  std::string hypothesis{};
  std::map<std::string, std::optional<std::string>> files{};
  bool operator==(const BatchCandidate&) const = default;
};

// What waits to be counted before the next decision.
struct BatchRecord {
  static constexpr const char* kind = "batch";
  std::string parent{};  // commit
  std::uint64_t seed = 0;
  std::vector<BatchCandidate> candidates{};
  std::string summary{};
  bool operator==(const BatchRecord&) const = default;
};

struct CountRecord {
  static constexpr const char* kind = "count";
  std::string candidate{};  // commit
  std::string hypothesis{};
  std::uint64_t seed = 0;
  double cycles = 0;                  // of the busiest SM, estimated; 0: it does not build, run or hold
  std::optional<double> predicted{};  // cycles of a call; unset: not predicted
  std::map<std::string, double> counters{};
  std::string summary{};
  bool operator==(const CountRecord&) const = default;
};

}  // namespace flashmoe::workflow
