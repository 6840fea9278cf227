// How kernels are usually tried: in the process that loads them, on one set of inputs that stays the same, by the clock
// of that process, nothing poisoned and nothing confined. What rules that look at no more than this would see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::arena {

// Of KernelBench for f32 (absolute and relative), which calls five times with new inputs and then times a hundred
// calls.
inline constexpr double plain_tolerance = 1e-4;
inline constexpr int plain_checked_calls = 5;
inline constexpr int plain_warm_up_calls = 5;
inline constexpr int plain_samples = 20;
inline constexpr int plain_calls_per_sample = 5;

struct PlainRun {
  bool right = false;                       // at the target, in the checked calls
  std::vector<std::int64_t> nanoseconds{};  // a call, one for each sample
};

struct PlainPlayers {
  std::string project{};  // its directory
  workflow::Runnable kernel{}, reference{};
};

// One fresh process: checks at the target, then times. A crash is not right.
[[nodiscard]] Result<PlainRun> plain_run(const PlainPlayers& players, std::uint64_t seed);
// Right at all these shapes, for large values at the last one within ten times the tolerance, and the same bits when
// called three times.
[[nodiscard]] Result<bool> plain_sweep(const PlainPlayers& players, const std::vector<workflow::Values>& shapes,
                                       std::uint64_t seed);
// Wrong there by the project's own tolerance. This looks at the truth of a candidate, for no rule.
[[nodiscard]] Result<bool> is_wrong_at(const PlainPlayers& players, const workflow::Values& shape,
                                       const std::string& hard, std::uint64_t seed);

// The other side: `arena plain REQUEST`.
int plain_main(const std::string& request);

}  // namespace flashmoe::arena
