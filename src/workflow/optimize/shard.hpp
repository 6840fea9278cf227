// A search that several processes share. The one that decides, shard 0, draws a batch of candidates and records it;
// each of the others counts its part of the batch and records that; when all counts are in one journal, shard 0 goes
// on. What is decided follows from the counts alone, so it is what one process would decide.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/optimize/candidates.hpp"
#include "workflow/optimize/optimize.hpp"

namespace flashmoe::workflow {

// "2/8": the second of eight; "0/8" decides.
[[nodiscard]] Result<Shard> parse_shard(const std::string& text);
// Whether a run on this device can be shared, and everything is said that all have to agree on.
[[nodiscard]] Result<Done> check_shared(const OptimizeRequest& request, const DeviceSelector& device);

// What shards of this run recorded of candidates.
[[nodiscard]] Result<CountedVersions> recorded_counts(const Journal& journal, const OptimizeRequest& request,
                                                      const std::string& device);
// Puts the batch down, unless it is the last that was.
[[nodiscard]] Result<Done> record_batch(Journal& journal, Record head, const std::vector<Candidate>& candidates,
                                        const std::string& parent, std::uint64_t seed);

struct ShardReport {
  std::string run{}, device{};
  Shard shard{};
  std::size_t batch = 0;    // candidates of the last batch
  std::size_t counted = 0;  // by this process
  std::size_t open = 0;     // that nobody has counted yet, as far as this journal tells
  double seconds = 0;
  std::string next{};
};
// The part of shard 1 and further.
[[nodiscard]] Result<ShardReport> count_share(const OptimizeRequest& request);

}  // namespace flashmoe::workflow
