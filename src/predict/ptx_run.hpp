// What a virtual GPU told of a launch: the PTX that ran, line by line, and the way some of its warps went. Lines are
// those of the PTX text, as SassInstruction::ptx_line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace flashmoe::predict {

enum class Outcome : std::uint8_t { not_taken, taken, both };  // both: lanes parted, those that do not branch ran first

struct OutcomeRun {
  Outcome outcome = Outcome::not_taken;
  std::uint32_t times = 1;

  friend bool operator==(const OutcomeRun&, const OutcomeRun&) = default;
};

struct PtxWarp {
  std::map<std::uint32_t, std::vector<OutcomeRun>> branches{};  // conditional ones by line, in the order executed
  std::map<std::uint32_t, std::uint64_t> executed{};            // by line; one that is not here was not

  friend bool operator==(const PtxWarp&, const PtxWarp&) = default;
};

struct PtxCta {
  std::uint64_t place = 0;  // in the grid
  std::vector<PtxWarp> warps{};
};

// Sums over all executions of a launch.
struct PtxLine {
  std::uint64_t executed = 0;  // by warps
  std::uint64_t shared_requests = 0, shared_wavefronts = 0;
  std::uint64_t global_requests = 0, global_sectors = 0, global_lines = 0;
  std::string file{};  // of the CUDA source; empty: unknown
  int source_line = 0;
};

struct CtaTotals {
  std::uint64_t instructions = 0, mma = 0, global_bytes = 0;

  friend bool operator==(const CtaTotals&, const CtaTotals&) = default;
};

struct PtxRun {
  std::string kernel{};
  std::map<std::uint32_t, PtxLine> lines{};  // executed ones
  std::vector<PtxCta> ctas{};                // whose way is known: the first, the median, the heaviest
  std::vector<CtaTotals> totals{};           // of all, by place in the grid
};

}  // namespace flashmoe::predict
