// What one CTA costs on an SM, as a mean over start offsets; long loops are simulated in part and extended.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "predict/path.hpp"
#include "predict/program.hpp"
#include "predict/sm.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

// One offset between CTAs alone is noise of about a percent: which warp happens to be in front decides for a whole
// loop.
inline constexpr int start_offsets = 8;

struct CtaCost {
  double cycles = 0;        // while `resident` CTAs share the SM: what the SM takes for one of them, times their number
  double spread = 0;        // relative standard deviation of the cycles over the offsets
  double instructions = 0;  // of its warps
  double sm_cycles = 0;     // what the SM takes for one
  std::array<double, pipes> busy{};                   // cycles; of the pipes of sub-partitions the sum of four
  std::vector<std::array<double, stalls>> stalled{};  // warp cycles by instruction
  double forced_barriers = 0;
  bool extended = false;  // a loop was simulated in part
  double not_affine = 0;  // then: how far its last iterations were from costing the same, relative

  // 0..1 of the SM's cycles.
  [[nodiscard]] double use(Pipe pipe) const;
  [[nodiscard]] double issue_use() const;
};

// Of CTAs that all go this path, `resident` at once. Above `most_instructions` for all simulations together a loop is
// shortened, if there is one that all warps go through equally often.
[[nodiscard]] Result<CtaCost> cta_cost(const Program& program, const CtaPath& path, int resident,
                                       std::uint64_t most_instructions = 12'000'000);

// The same of one iteration of the path's longest loop, in the middle of it: what a long kernel tends to. An error
// where there is no loop.
[[nodiscard]] Result<CtaCost> iteration_cost(const Program& program, const CtaPath& path, int resident);

// The run of equal stretches of a path that covers most of it, each from the first instruction of the loop to the next
// time that one is reached; so the last iteration is not among them.
struct Loop {
  std::size_t begin = 0;
  std::size_t period = 0;  // instructions; 0: there is none
  std::size_t count = 0;
};
[[nodiscard]] Loop longest_loop(const WarpPath& path);

}  // namespace flashmoe::predict
