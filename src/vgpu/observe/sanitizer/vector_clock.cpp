#include "vgpu/observe/sanitizer/vector_clock.hpp"

#include <algorithm>

namespace flashmoe::vgpu::observe {
namespace {

// Of one warp. More than these become one that stands for all their lanes, up to the latest clock: then a race may go
// unseen, but none is invented, and a lock that every lane of a grid takes in turn stays small.
constexpr std::size_t most_times_of_a_warp = 4;

void add(LaneClock& out, std::size_t first, const LaneTime& time) {
  for (std::size_t i = first; i < out.size(); ++i) {
    if ((time.lanes & ~out[i].lanes) == 0 && time.clock <= out[i].clock) return;
    if (out[i].clock == time.clock) {
      out[i].lanes |= time.lanes;
      return;
    }
  }
  out.push_back(time);
  if (out.size() - first <= most_times_of_a_warp) return;
  LaneTime all = out[first];
  for (std::size_t i = first + 1; i < out.size(); ++i) {
    all.lanes |= out[i].lanes;
    all.clock = std::max(all.clock, out[i].clock);
  }
  out.resize(first);
  out.push_back(all);
}

}  // namespace

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

std::uint32_t clock_of(const SparseClock& clock, std::uint32_t actor) {
  const auto found = std::lower_bound(clock.begin(), clock.end(), std::pair<std::uint32_t, std::uint32_t>{actor, 0});
  return found != clock.end() && found->first == actor ? found->second : 0;
}

LaneClock merged(const LaneClock& a, const LaneClock& b) {
  LaneClock out;
  out.reserve(a.size() + b.size());
  std::size_t first = 0;  // of the warp's times
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() || right != b.end()) {
    const bool takes_left = right == b.end() || (left != a.end() && left->actor <= right->actor);
    const LaneTime& next = takes_left ? *left++ : *right++;
    if (first < out.size() && out[first].actor != next.actor) first = out.size();
    add(out, first, next);
  }
  return out;
}

bool Message::knows(std::uint32_t actor, std::uint32_t lane, std::uint32_t clock) const {
  if (clock_of(warps, actor) >= clock) return true;
  auto time = std::lower_bound(lanes.begin(), lanes.end(), actor,
                               [](const LaneTime& one, std::uint32_t wanted) { return one.actor < wanted; });
  for (; time != lanes.end() && time->actor == actor; ++time)
    if (time->clock >= clock && (time->lanes >> lane & 1) != 0) return true;
  return false;
}

void join(MessagePtr& into, const MessagePtr& other) {
  if (!other || other == into) return;
  if (!into) {
    into = other;
    return;
  }
  Message both{merged(into->warps, other->warps), merged(into->lanes, other->lanes)};
  std::erase_if(both.lanes, [&](const LaneTime& time) { return clock_of(both.warps, time.actor) >= time.clock; });
  into = std::make_shared<const Message>(std::move(both));
}

void VectorClock::join(const VectorClock& other) {
  if (own.size() < other.own.size()) own.resize(other.own.size());
  for (std::size_t i = 0; i < other.own.size(); ++i) own[i] = std::max(own[i], other.own[i]);
  observe::join(beyond, other.beyond);
}

void VectorClock::join(const MessagePtr& other, std::uint32_t first) {
  if (!other || other == beyond) return;
  const auto last = first + static_cast<std::uint32_t>(own.size());
  for (const auto& [actor, clock] : other->warps) {
    if (actor >= first && actor < last) own[actor - first] = std::max(own[actor - first], clock);
  }
  observe::join(beyond, other);
}

Message VectorClock::message(std::uint32_t first) const {
  SparseClock mine;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] > 0) mine.emplace_back(first + static_cast<std::uint32_t>(i), own[i]);
  }
  if (!beyond) return {std::move(mine), {}};
  return {merged(mine, beyond->warps), beyond->lanes};
}

}  // namespace flashmoe::vgpu::observe
