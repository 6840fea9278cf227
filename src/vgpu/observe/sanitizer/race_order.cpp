// What orders accesses: waits, barriers, fences, strong accesses. Each makes clocks known to others.
#include <algorithm>

#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/sanitizer/racecheck.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// body(place, lanes) for lanes that name the same one.
template <class Body>
void for_each_place(std::uint32_t lanes, const std::uint64_t* address, Body&& body) {
  while (lanes != 0) {
    const std::uint64_t place = address[std::countr_zero(lanes)];
    std::uint32_t here = 0;
    for_each_lane(lanes, [&](int lane) { here |= address[lane] == place ? 1u << lane : 0u; });
    lanes &= ~here;
    body(place, here);
  }
}

// What a strong write of these lanes hands on: as a release, or by the fences before it.
Left handed_on(const WarpClock& clock, std::uint32_t lanes, bool releases, bool for_gpu) {
  Left left;
  if (releases) left.released = clock.released(lanes);
  const bool tells_fences = releases || for_gpu;
  if (tells_fences) left.fenced = clock.fenced;
  if (!clock.lanes) return left;
  const auto fence_of = [&](int lane) -> const FencePoint* {
    const LaneKnowledge& one = (*clock.lanes)[static_cast<std::size_t>(lane)];
    return (for_gpu ? one.gpu_fence : one.fence).get();
  };
  for (std::uint32_t rest = releases ? 0 : lanes; rest != 0;) {
    const FencePoint* const fence = fence_of(std::countr_zero(rest));
    std::uint32_t alike = 0;
    for_each_lane(rest, [&](int lane) { alike |= fence_of(lane) == fence ? 1u << lane : 0u; });
    if (fence != nullptr) join(left.released, fence->released(alike, clock.is_whole(alike)));
    rest &= ~alike;
  }
  if (tells_fences && clock.lanes_differ) {
    for_each_lane(lanes, [&](int lane) { join(left.fenced, (*clock.lanes)[static_cast<std::size_t>(lane)].fenced); });
  }
  return left;
}

// A strong read of these lanes finds it.
void pick_up(const Left& left, std::uint32_t lanes, bool acquires, MessagePtr LaneKnowledge::*seen, WarpClock& clock) {
  if (acquires) clock.learn(lanes, left);
  const bool is_wide = seen == &LaneKnowledge::seen_in_gpu;
  if ((acquires || !left.released) && (!is_wide || !left.fenced)) return;
  for_each_lane(lanes, [&](int number) {
    LaneKnowledge& one = clock.lane(number);
    if (!acquires) join(one.*seen, left.released);
    if (is_wide) join(one.seen_fenced, left.fenced);
  });
}

}  // namespace

void Racecheck::copies_waited(std::uint32_t lanes, const GroupsDone& done, WarpClock& clock) {
  clock.tick();
  for_each_lane(lanes, [&](int lane) {
    std::uint32_t& known = clock.groups_done[static_cast<std::size_t>(lane)];
    for (; known < done[static_cast<std::size_t>(lane)]; ++known) {
      if (known >= clock.groups.size()) continue;
      WarpClock::CopyGroup& group = clock.groups[known];
      group.waited_lanes |= 1u << lane;
      group.waited_at = clock.clock();
      if (group.waited_lanes == exec::all_lanes) group.landed_at = group.waited_at;
    }
  });
}

void Racecheck::barrier_arrives(std::uint32_t number, bool waits, WarpClock& clock, CtaClock& cta) {
  CtaClock::Barrier& barrier = cta.arriving[number];
  barrier.clock.join(clock.knows);
  join(barrier.fenced, clock.fenced);
  if (clock.lanes_differ) {
    const WarpClock::Together lanes = clock.together(clock.valid);
    barrier.clock.join(lanes.acquired, clock.first_actor);
    join(barrier.fenced, lanes.fenced);
  }
  if (waits) barrier.waiting |= std::uint64_t{1} << clock.id % 64;
  join(barrier.told, clock.told);
  if (clock.lanes) join(barrier.told, clock.seen());
  clock.tick();
}

void Racecheck::barrier_completes(std::uint32_t number, bool is_whole, CtaClock& cta) {
  // Whoever has exited without waiting is known to nobody, or was before it went on.
  if (is_whole && (cta.users & ~cta.arriving[number].waiting) == 0 && cta.warps.size() <= 64) {
    std::uint64_t pages = 0;  // of copies under way, for which their warp has still to wait, and to tell the others
    cta.users = 0;
    for (WarpClock* const warp : cta.warps) {
      const std::uint64_t under_way = warp->pages_of_copies();
      pages |= under_way;
      if (under_way != 0) cta.users |= std::uint64_t{1} << warp->id;
    }
    cta.reads.all_met(pages);
  } else {
    look_at_reads(cta);
  }
  cta.released[number] = cta.arriving[number];
  cta.arriving[number] = {};
}

void Racecheck::barrier_passes(std::uint32_t number, WarpClock& clock, CtaClock& cta) {
  clock.knows.join(cta.released[number].clock);
  join(clock.fenced, cta.released[number].fenced);
  join(clock.told, cta.released[number].told);
  clock.meet(clock.valid);
}

void Racecheck::fence(std::uint32_t lanes, exec::Scope scope, exec::FenceKind kind, WarpClock& clock, CtaClock& cta) {
  look_at_reads(cta);
  clock.fence(lanes, scope, kind);
}

void Racecheck::warp_syncs(std::uint32_t lanes, WarpClock& clock, CtaClock& cta) {
  if (clock.lanes_differ) look_at_reads(cta);
  clock.tick();
  clock.meet(lanes);
}

// Strong accesses carry order: a write publishes what a release gave it, a read picks up what lies there. Lanes of one
// atomic on one place come one after another, so they see each other's.
void Racecheck::synchronise(const exec::Access& access, WarpClock& clock, CtaClock& cta) {
  const bool reads = access.kind != exec::AccessKind::store;
  const bool writes = access.kind != exec::AccessKind::load;
  const bool releases = access.order == exec::Order::release || access.order == exec::Order::acq_rel;
  const bool acquires = access.order == exec::Order::acquire || access.order == exec::Order::acq_rel;
  const bool gpu_wide = access.space != ir::Space::shared && (access.is_volatile || access.scope != exec::Scope::cta);
  const bool has_news = writes && (releases || clock.lanes || clock.fenced);
  if (!has_news && (!reads || (cta.locations.empty() && locations_.empty()))) return;
  look_at_reads(cta);
  for_each_place(access.lanes, access.address, [&](std::uint64_t address, std::uint32_t lanes) {
    const std::uint64_t key = location_of(access.space, address);
    if (has_news) {
      const Left narrow = handed_on(clock, lanes, releases, false);
      if (!narrow.is_empty()) cta.locations[key].join(narrow);
      const Left wide = !gpu_wide ? Left{} : releases ? narrow : handed_on(clock, lanes, false, true);
      if (!wide.is_empty()) locations_[key].join(wide);
    }
    if (!reads) return;
    const auto in_cta = cta.locations.find(key);
    if (in_cta != cta.locations.end()) pick_up(in_cta->second, lanes, acquires, &LaneKnowledge::seen_in_cta, clock);
    const auto in_gpu = gpu_wide ? locations_.find(key) : locations_.end();
    if (in_gpu != locations_.end()) pick_up(in_gpu->second, lanes, acquires, &LaneKnowledge::seen_in_gpu, clock);
  });
  if (writes && releases) clock.tick();
}

void Racecheck::object_used(const exec::BarrierObjectUse& use, const GroupsDone& done, WarpClock& clock,
                            CtaClock& cta) {
  using Kind = exec::BarrierObjectUse::Kind;
  look_at_reads(cta);
  if (use.kind == Kind::copies_arrive) join_copies(use.lanes, done, clock);
  for_each_place(use.lanes, use.place, [&](std::uint64_t place, std::uint32_t lanes) {
    ObjectClock& object = cta.objects[place];
    switch (use.kind) {
      case Kind::init:
        object = {};
        return;
      case Kind::wait: {
        const std::uint32_t passed = lanes & use.passed;
        if (passed != 0) pick_up(object.completed, passed, !use.is_relaxed, &LaneKnowledge::seen_in_cta, clock);
        return;
      }
      case Kind::arrive:
      case Kind::copies_arrive:
        // Up to the arrival that ends a phase; those behind it count for the next one.
        while (lanes != 0) {
          const std::uint32_t ends = lanes & use.passed;
          const std::uint32_t now = ends == 0 ? lanes : lanes & ((2u << std::countr_zero(ends)) - 1u);
          if (use.kind == Kind::arrive) {
            object.arriving.join(handed_on(clock, now, !use.is_relaxed, false));
          } else {
            join(object.arriving.released,
                 std::make_shared<const Message>(Message{{}, {{copies_of(clock.actor), now, clock.clock()}}}));
          }
          if (ends != 0) {
            object.completed.join(object.arriving);
            object.arriving = {};
          }
          lanes &= ~now;
        }
        return;
    }
  });
  if (use.kind == Kind::arrive) clock.tick();
}

// All copies that these lanes have issued so far.
void Racecheck::join_copies(std::uint32_t lanes, const GroupsDone& done, WarpClock& clock) {
  clock.tick();
  for_each_lane(lanes, [&](int number) {
    const auto lane = static_cast<std::size_t>(number);
    for (std::uint32_t& known = clock.groups_joined[lane]; known < done[lane]; ++known) {
      if (known >= clock.groups.size()) continue;
      WarpClock::CopyGroup& group = clock.groups[known];
      if (!group.joined_at) group.joined_at = std::make_unique<std::array<std::uint32_t, 32>>();
      (*group.joined_at)[lane] = clock.clock();
    }
  });
}

}  // namespace flashmoe::vgpu::observe
