#include "vgpu/observe/sanitizer/race_clocks.hpp"

#include <algorithm>
#include <utility>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

void set_clock(SparseClock& warps, std::uint32_t actor, std::uint32_t clock) {
  const auto place = std::lower_bound(warps.begin(), warps.end(), std::pair<std::uint32_t, std::uint32_t>{actor, 0});
  if (place != warps.end() && place->first == actor) {
    place->second = clock;
  } else {
    warps.insert(place, {actor, clock});
  }
}

MessagePtr with_lanes(const Message& message, const LaneTime& time) {
  return std::make_shared<const Message>(Message{message.warps, merged(message.lanes, {time})});
}

// body(lanes, knowledge) for lanes that are told the same by `same`.
template <class Same, class Body>
void for_each_alike(std::uint32_t who, std::array<LaneKnowledge, 32>& lanes, Same&& same, Body&& body) {
  while (who != 0) {
    const auto first = static_cast<std::size_t>(std::countr_zero(who));
    std::uint32_t alike = 0;
    for_each_lane(
        who, [&](int lane) { alike |= same(lanes[static_cast<std::size_t>(lane)], lanes[first]) ? 1u << lane : 0u; });
    who &= ~alike;
    body(alike, lanes[first]);
  }
}

}  // namespace

MessagePtr FencePoint::released(std::uint32_t lanes, bool whole) const {
  if (!whole) return with_lanes(*known, {actor, lanes, clock});
  Message all = *known;
  set_clock(all.warps, actor, std::max(clock, clock_of(all.warps, actor)));
  return std::make_shared<const Message>(std::move(all));
}

LaneKnowledge& WarpClock::lane(int number) {
  if (!lanes) lanes = std::make_unique<std::array<LaneKnowledge, 32>>();
  return (*lanes)[static_cast<std::size_t>(number)];
}

std::uint64_t WarpClock::pages_of_copies() {
  while (landed_groups < groups.size() && groups[landed_groups].landed_at != CopyGroup::never) ++landed_groups;
  std::uint64_t pages = 0;
  for (std::size_t i = landed_groups; i < groups.size(); ++i)
    pages |= groups[i].landed_at == CopyGroup::never ? groups[i].pages : 0;
  return pages;
}

WarpClock::Together WarpClock::together(std::uint32_t who) const {
  Together all;
  if (!lanes_differ) return all;
  for_each_lane(who & valid, [&](int lane) {
    const LaneKnowledge& one = (*lanes)[static_cast<std::size_t>(lane)];
    join(all.acquired, one.acquired);
    join(all.fenced, one.fenced);
  });
  for_each_alike(
      who & valid, *lanes, [](const auto& a, const auto& b) { return a.gpu_fence == b.gpu_fence; },
      [&](std::uint32_t alike, const LaneKnowledge& one) {
        if (one.gpu_fence && one.gpu_fence->is_sc) join(all.fenced, one.gpu_fence->released(alike, is_whole(alike)));
      });
  return all;
}

MessagePtr WarpClock::seen() const {
  MessagePtr all;
  for (const LaneKnowledge& one : *lanes) {
    join(all, one.seen_in_cta);
    join(all, one.seen_in_gpu);
  }
  return all;
}

void WarpClock::meet(std::uint32_t who) {
  if (lanes_differ) {
    const Together all = together(who);
    if (is_whole(who)) {
      knows.join(all.acquired, first_actor);
      join(fenced, all.fenced);
      for (LaneKnowledge& one : *lanes) one.acquired = one.fenced = nullptr;
      lanes_differ = false;
    } else {
      for_each_lane(who, [&](int number) {
        LaneKnowledge& one = lane(number);
        one.acquired = all.acquired;
        one.fenced = all.fenced;
      });
    }
  }
  if (is_whole(who)) {
    whole_sync = clock();
    meetings.reset();
    return;
  }
  if (!meetings) meetings = std::make_unique<Meetings>();
  std::array<std::uint32_t, 32> known{};  // to one of them, now to all
  for_each_lane(who, [&](int lane) {
    const auto& of_lane = (*meetings)[static_cast<std::size_t>(lane)];
    for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], of_lane[i]);
  });
  for_each_lane(who, [&](int lane) { known[static_cast<std::size_t>(lane)] = clock(); });
  for_each_lane(who, [&](int lane) { (*meetings)[static_cast<std::size_t>(lane)] = known; });
}

void WarpClock::learn(std::uint32_t who, const MessagePtr& message) {
  if (!message) return;
  if (is_whole(who)) {
    knows.join(message, first_actor);
    // What the warp itself had released up to then: its lanes know each other's part of it.
    if (const std::uint32_t mine = clock_of(message->warps, actor); mine != 0) {
      whole_sync = std::max(whole_sync, mine + 1);
    }
    return;
  }
  for_each_lane(who, [&](int number) { join(lane(number).acquired, message); });
  lanes_differ = true;
}

void WarpClock::learn(std::uint32_t who, const Left& left) {
  if (!left.released) return;
  learn(who, left.released);
  if (!left.fenced) return;
  if (is_whole(who)) {
    join(fenced, left.fenced);
    return;
  }
  for_each_lane(who, [&](int number) { join(lane(number).fenced, left.fenced); });
  lanes_differ = true;
}

// All but their own accesses since the warp, or some of it, last met.
MessagePtr WarpClock::known_before(std::uint32_t who) const {
  Message message = knows.message(first_actor);
  const std::uint32_t acquired = knows.beyond ? clock_of(knows.beyond->warps, actor) : 0;
  set_clock(message.warps, actor, std::max(acquired, whole_sync == 0 ? 0 : whole_sync - 1));
  MessagePtr known = std::make_shared<const Message>(std::move(message));
  if (!lanes_differ && !meetings) return known;
  for_each_lane(who, [&](int lane) {
    if (lanes_differ) join(known, (*lanes)[static_cast<std::size_t>(lane)].acquired);
    if (!meetings) return;
    const auto& met = (*meetings)[static_cast<std::size_t>(lane)];
    for (std::uint32_t other = 0; other < met.size(); ++other) {
      if (met[other] > whole_sync) known = with_lanes(*known, {actor, 1u << other, met[other] - 1});
    }
  });
  return known;
}

MessagePtr WarpClock::released(std::uint32_t who) const {
  const FencePoint now{known_before(who), actor, clock(), false};
  return now.released(who, is_whole(who));
}

void WarpClock::fence(std::uint32_t who, exec::Scope scope, exec::FenceKind kind) {
  const bool is_wide = scope != exec::Scope::cta;
  const bool is_sc = kind == exec::FenceKind::sc;
  if (kind != exec::FenceKind::release && lanes) {
    const auto same = [](const LaneKnowledge& a, const LaneKnowledge& b) {
      return a.seen_in_cta == b.seen_in_cta && a.seen_in_gpu == b.seen_in_gpu && a.seen_fenced == b.seen_fenced;
    };
    for_each_alike(who, *lanes, same, [&](std::uint32_t alike, LaneKnowledge& one) {
      const LaneKnowledge seen = one;
      for_each_lane(alike, [&](int number) {
        LaneKnowledge& of_lane = lane(number);
        of_lane.seen_in_cta = nullptr;
        if (is_wide) of_lane.seen_in_gpu = nullptr;
        if (is_wide && is_sc) of_lane.seen_fenced = nullptr;
      });
      learn(alike, seen.seen_in_cta);
      if (is_wide) learn(alike, seen.seen_in_gpu);
      if (is_wide && is_sc) learn(alike, seen.seen_fenced);
    });
  }
  if (kind == exec::FenceKind::acquire) return;
  // Lanes that know the same share a point; each hands on its own accesses only.
  std::shared_ptr<const FencePoint> point;
  MessagePtr acquired;  // by the lanes of `point`
  for_each_lane(who, [&](int number) {
    LaneKnowledge& of_lane = lane(number);
    if (!point || meetings || of_lane.acquired != acquired) {
      point = std::make_shared<const FencePoint>(FencePoint{known_before(1u << number), actor, clock(), is_sc});
      acquired = of_lane.acquired;
    }
    of_lane.fence = point;
    if (is_wide) of_lane.gpu_fence = point;
  });
  if (is_wide && is_sc) lanes_differ = true;
  tick();
}

}  // namespace flashmoe::vgpu::observe
