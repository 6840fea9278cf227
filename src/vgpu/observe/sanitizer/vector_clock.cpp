#include "vgpu/observe/sanitizer/vector_clock.hpp"

#include <algorithm>

namespace flashmoe::vgpu::observe {

SparseClock merged(const SparseClock& a, const SparseClock& b) {
  SparseClock out;
  out.reserve(a.size() + b.size());
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() || right != b.end()) {
    if (right == b.end() || (left != a.end() && left->first < right->first)) {
      out.push_back(*left++);
    } else if (left == a.end() || right->first < left->first) {
      out.push_back(*right++);
    } else {
      out.emplace_back(left->first, std::max(left->second, right->second));
      ++left;
      ++right;
    }
  }
  return out;
}

void VectorClock::join(const VectorClock& other) {
  if (own.size() < other.own.size()) own.resize(other.own.size());
  for (std::size_t i = 0; i < other.own.size(); ++i) own[i] = std::max(own[i], other.own[i]);
  if (!other.foreign || other.foreign == foreign) return;
  foreign = foreign ? std::make_shared<const SparseClock>(merged(*foreign, *other.foreign)) : other.foreign;
}

void VectorClock::join_sparse(const std::shared_ptr<const SparseClock>& other, std::uint32_t first) {
  if (!other || other == foreign) return;
  const auto last = first + static_cast<std::uint32_t>(own.size());
  for (const auto& [actor, clock] : *other) {
    if (actor >= first && actor < last) own[actor - first] = std::max(own[actor - first], clock);
  }
  foreign = foreign ? std::make_shared<const SparseClock>(merged(*foreign, *other)) : other;
}

SparseClock VectorClock::sparse(std::uint32_t first) const {
  SparseClock mine;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] > 0) mine.emplace_back(first + static_cast<std::uint32_t>(i), own[i]);
  }
  return foreign ? merged(mine, *foreign) : mine;
}

std::uint32_t VectorClock::of_foreign(std::uint32_t actor) const {
  if (!foreign) return 0;
  const auto found =
      std::lower_bound(foreign->begin(), foreign->end(), std::pair<std::uint32_t, std::uint32_t>{actor, 0});
  return found != foreign->end() && found->first == actor ? found->second : 0;
}

}  // namespace flashmoe::vgpu::observe
