// Measures all tasks on this machine, through the real gates and the real contest, and plainly beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recording.hpp"
#include "support/progress.hpp"

namespace flashmoe::arena {

struct RecordOptions {
  int pairs = 24;                 // of an honest candidate: a replay draws from them
  int equal_pairs = 10;           // of the base against itself
  int attempts = 2;               // at a candidate that ought to be refused, of at most 24 pairs each
  int plain_runs = 20;            // one for each seed of the replay
  double block_seconds = 0.0015;  // shorter than compare's, so that all of it takes minutes
};

// Writes to `file`; tasks that an interrupted recording has finished (FILE.part) are not measured again.
[[nodiscard]] Result<Done> record_all(const std::vector<Task>& tasks, const std::string& file,
                                      const RecordOptions& options, Progress& progress);

}  // namespace flashmoe::arena
