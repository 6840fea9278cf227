// What a warp knows of the others' progress. Clocks of its own CTA are dense; those of other CTAs are few and come only
// through fences and atomics, so they are sparse and shared between the warps that know the same.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace flashmoe::vgpu::observe {

// Sorted by actor. An actor is a warp of the grid: CTA number x warps per CTA + warp.
using SparseClock = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

[[nodiscard]] SparseClock merged(const SparseClock& a, const SparseClock& b);

struct VectorClock {
  std::vector<std::uint32_t> own{};  // by warp of the CTA
  std::shared_ptr<const SparseClock> foreign{};

  void join(const VectorClock& other);
  // `first` is the actor of the CTA's warp 0.
  void join_sparse(const std::shared_ptr<const SparseClock>& other, std::uint32_t first);
  [[nodiscard]] SparseClock sparse(std::uint32_t first) const;
  [[nodiscard]] std::uint32_t of_foreign(std::uint32_t actor) const;
};

}  // namespace flashmoe::vgpu::observe
