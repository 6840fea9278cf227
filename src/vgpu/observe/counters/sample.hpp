// Counters of some CTAs for those of all: every CTA runs, a few are watched, and each of these is counted as many times
// as there are CTAs that it stands for.
//
// The grid is cut into stretches of neighbours, because what a CTA does depends on its place (edges, the triangle of a
// causal mask). Two CTAs of each are drawn by seed, so that what they differ by tells how far off the sum may be: the
// standard error of a stratified sample. Where all CTAs do the same it is 0, and the sums are those of a whole run. A
// rare CTA that does far more than its neighbours may be missed, and then no error tells of it; but instructions are
// counted for every CTA, watched or not, so how well the sample stands for those is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "support/count_or_percent.hpp"

namespace flashmoe::vgpu::observe {

// What one CTA did.
struct CtaCounts {
  std::uint64_t instructions = 0, thread_instructions = 0;
  std::uint64_t shared_wavefronts = 0, shared_bank_conflicts = 0;
  std::uint64_t global_requests = 0, global_sectors = 0;
  std::uint64_t local_bytes = 0;
};

// How many CTAs of a grid. At least two, for the error.
struct SampleSize {
  CountOrPercent wanted{};

  [[nodiscard]] static std::optional<SampleSize> parse(std::string_view text);
  [[nodiscard]] std::uint64_t of(std::uint64_t ctas) const;  // even; or all
};

class CtaSample {
 public:
  struct Chosen {
    std::uint64_t cta = 0;
    std::uint64_t stands_for = 1;
    CtaCounts counts{};
  };

  // `chosen`: as SampleSize::of() has it, fewer than there are.
  CtaSample(std::uint64_t ctas, std::uint64_t chosen, std::uint64_t seed);

  [[nodiscard]] Chosen* find(std::uint64_t cta);  // nullptr: not in it
  [[nodiscard]] bool holds(std::uint64_t cta) const;
  [[nodiscard]] const std::vector<Chosen>& chosen() const { return chosen_; }
  [[nodiscard]] std::uint64_t ctas() const { return ctas_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

  [[nodiscard]] std::uint64_t sum(std::uint64_t CtaCounts::*of) const;  // scaled
  [[nodiscard]] double standard_error(std::uint64_t CtaCounts::*of) const;
  [[nodiscard]] double standard_error_percent(std::uint64_t CtaCounts::*of) const;  // of the sum; 0 where that is

 private:
  std::uint64_t ctas_ = 0, seed_ = 0;
  std::vector<Chosen> chosen_{};  // by place in the grid; two and two are of one stretch
  std::size_t latest_ = 0;        // found: neighbouring events are mostly of one CTA
};

}  // namespace flashmoe::vgpu::observe
