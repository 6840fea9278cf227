// Pairs of a comparison that is under way, on disk after each one: what a preemption or a kill leaves is where the
// next run goes on. Going on is sound: the test is valid at any look, also at one that came late.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "support/result.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::workflow {

// What a comparison was begun with, and what stays when it goes on.
struct PartialHeader {
  std::optional<std::uint64_t> seed{};  // unset: the header cannot be used
  int index = 0;                        // k of its run
  std::optional<std::string> key{}, run{};
};

struct PartialPairs {
  PartialHeader header{};
  Comparison comparison{};  // its pairs
};

class PartialComparison {
 public:
  // `key` identifies what is compared (comparison_key); one file each.
  PartialComparison(const std::string& project_directory, const std::string& key);
  [[nodiscard]] bool exists() const;
  // What was stored. Damaged lines are left out.
  [[nodiscard]] Result<PartialPairs> load() const;
  [[nodiscard]] Result<Done> begin(const PartialHeader& header) const;  // forgets what was there
  [[nodiscard]] Result<Done> add(bool calibrating, const PairSample& sample) const;
  void forget() const;  // after its record is written

 private:
  std::string path_;
};

// The same two builds, workload and machine, measured the same way.
struct ComparisonIdentity {
  std::string base_sha256{}, candidate_sha256{};
  std::string workload{};
  std::optional<std::string> host{};
  double block_seconds = 0;
  bool final_claim = false;
};
[[nodiscard]] std::string comparison_key(const ComparisonIdentity& identity);

}  // namespace flashmoe::workflow
