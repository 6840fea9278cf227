// Pairs of a comparison that is under way, on disk after each one: what a preemption or a kill leaves is where the
// next run goes on. Going on is sound: the test is valid at any look, also at one that came late.
#pragma once

#include <string>

#include "support/json.hpp"
#include "support/result.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::workflow {

class PartialComparison {
 public:
  // `key` identifies what is compared (hashes of both builds, workload, machine); one file each.
  PartialComparison(const std::string& project_directory, const std::string& key);
  [[nodiscard]] bool exists() const;
  // What was stored: `header` as it was begun with, and the pairs. Damaged lines are left out.
  [[nodiscard]] Result<Comparison> load(Json& header) const;
  [[nodiscard]] Result<Done> begin(const Json& header) const;  // forgets what was there
  [[nodiscard]] Result<Done> add(bool calibrating, const PairSample& sample) const;
  void forget() const;  // after its record is written

 private:
  std::string path_;
};

}  // namespace flashmoe::workflow
