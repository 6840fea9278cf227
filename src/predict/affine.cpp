#include "predict/affine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace flashmoe::predict {
namespace {

using Instructions = std::vector<std::uint32_t>;
using Distance = Instructions::difference_type;

// small = head + tail, large = head + rounds + tail; a round is `step` blocks.
struct Parts {
  Distance head = 0;  // instructions of small before the rounds
  Instructions round{};
  std::int64_t step = 0;
};

bool repeats(const Instructions& all, std::size_t period) {
  return std::equal(all.begin() + static_cast<Distance>(period), all.end(), all.begin());
}

Result<Parts> parts_of(const Instructions& small, const Instructions& large, std::int64_t blocks_between) {
  const Diagnostic no_loop{.message = "two sizes of the kernel do not differ by whole rounds of one loop",
                           .fix = "predict the size itself, or take two larger ones"};
  if (large.size() < small.size()) return no_loop;
  const auto [at, in_large] = std::mismatch(small.begin(), small.end(), large.begin());
  const Distance head = at - small.begin();
  if (!std::equal(at, small.end(), large.end() - (small.end() - at))) return no_loop;
  const auto more = static_cast<Distance>(large.size() - small.size());
  const Instructions between(large.begin() + head, large.begin() + head + more);
  // The finest rounds: ptxas may have unrolled the loop.
  for (std::int64_t step = 1; step <= blocks_between; ++step) {
    const std::int64_t rounds = blocks_between / step;
    if (blocks_between % step != 0 || more % rounds != 0) continue;
    const auto period = static_cast<std::size_t>(more / rounds);
    if (!repeats(between, period)) continue;
    return Parts{head, Instructions(between.begin(), between.begin() + static_cast<Distance>(period)), step};
  }
  return no_loop;
}

}  // namespace

Result<CtaPath> path_at(const SizedPath& small, const SizedPath& large, std::int64_t blocks) {
  const bool is_sorted = small.blocks < large.blocks && small.blocks <= blocks;
  if (!is_sorted || small.path.warps.size() != large.path.warps.size())
    return Diagnostic{.message = fmt::format("{} and {} blocks do not lead to {}", small.blocks, large.blocks, blocks),
                      .fix = "run two sizes below the one that is asked for, with the same number of warps"};
  CtaPath path;
  for (std::size_t i = 0; i < small.path.warps.size(); ++i) {
    const Instructions& from = small.path.warps[i].instructions;
    const auto parts = parts_of(from, large.path.warps[i].instructions, large.blocks - small.blocks);
    if (!parts) return parts.error();
    if ((blocks - small.blocks) % parts->step != 0)
      return Diagnostic{
          .message = fmt::format("the loop does {} blocks a round: {} blocks are no whole rounds more "
                                 "than {}",
                                 parts->step, blocks, small.blocks),
          .fix = fmt::format("begin with a number of blocks that differs by a multiple of {}", parts->step)};
    Instructions& to = path.warps.emplace_back().instructions;
    to.assign(from.begin(), from.begin() + parts->head);
    for (std::int64_t round = 0; round < (blocks - small.blocks) / parts->step; ++round)
      to.insert(to.end(), parts->round.begin(), parts->round.end());
    to.insert(to.end(), from.begin() + parts->head, from.end());
  }
  return path;
}

bool is_affine(const SizedPath& small, const SizedPath& large, const SizedPath& check) {
  const auto expected = path_at(small, large, check.blocks);
  return expected && expected->warps == check.path.warps;
}

}  // namespace flashmoe::predict
