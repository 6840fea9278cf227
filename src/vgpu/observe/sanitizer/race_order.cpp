// What orders accesses: waits, barriers, fences, strong accesses. Each makes clocks known to others.
#include <algorithm>

#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/sanitizer/racecheck.hpp"

namespace flashmoe::vgpu::observe {

void WarpClock::meet(std::uint32_t lanes) {
  if ((valid & ~lanes) == 0) {
    whole_sync = clock();
    meetings.reset();
    return;
  }
  if (!meetings) meetings = std::make_unique<Meetings>();
  std::array<std::uint32_t, 32> known{};  // to one of them, now to all
  for_each_lane(lanes, [&](int lane) {
    const auto& of_lane = (*meetings)[static_cast<std::size_t>(lane)];
    for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], of_lane[i]);
  });
  for_each_lane(lanes, [&](int lane) { known[static_cast<std::size_t>(lane)] = clock(); });
  for_each_lane(lanes, [&](int lane) { (*meetings)[static_cast<std::size_t>(lane)] = known; });
}

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

void Racecheck::barrier_arrives(std::uint32_t number, WarpClock& clock, CtaClock& cta) {
  cta.arriving[number].join(clock.knows);
  clock.tick();
}

void Racecheck::barrier_completes(std::uint32_t number, CtaClock& cta) {
  cta.released[number] = cta.arriving[number];
  cta.arriving[number] = {};
}

void Racecheck::barrier_passes(std::uint32_t number, WarpClock& clock, CtaClock& cta) {
  clock.knows.join(cta.released[number]);
  clock.meet(clock.valid);
}

void Racecheck::fence(exec::Scope scope, WarpClock& clock) {
  clock.knows.join(clock.seen_in_cta);
  clock.seen_in_cta = {};
  if (scope != exec::Scope::cta) {
    clock.knows.join_sparse(clock.seen_in_gpu, clock.first_actor);
    clock.seen_in_gpu.reset();
  }
  clock.at_fence = clock.knows;
  clock.fenced = true;
  clock.fenced_for_gpu = scope != exec::Scope::cta;
  clock.tick();
  clock.meet(clock.valid);  // clocks are the warp's: a fence of one lane counts for all
}

void Racecheck::warp_syncs(std::uint32_t lanes, WarpClock& clock) {
  clock.tick();
  clock.meet(lanes);
}

// Strong accesses carry order: a write publishes what a release gave it, a read picks up what lies there.
void Racecheck::synchronise(const exec::Access& access, WarpClock& clock, CtaClock& cta) {
  const bool reads = access.kind != exec::AccessKind::store;
  const bool writes = access.kind != exec::AccessKind::load;
  const bool releases = access.order == exec::Order::release || access.order == exec::Order::acq_rel;
  const bool acquires = access.order == exec::Order::acquire || access.order == exec::Order::acq_rel;
  const bool is_shared = access.space == ir::Space::shared;
  const bool gpu_wide = access.is_volatile || access.scope != exec::Scope::cta;
  const auto key_of = [&](int lane) { return location_of(access.space, access.address[lane]); };
  if (reads && (!cta.locations.empty() || !locations_.empty())) {
    for_each_lane(access.lanes, [&](int lane) {
      if (const auto found = cta.locations.find(key_of(lane)); found != cta.locations.end()) {
        (acquires ? clock.knows : clock.seen_in_cta).join(found->second);
      }
      if (is_shared || !gpu_wide) return;
      const auto found = locations_.find(key_of(lane));
      if (found == locations_.end()) return;
      if (acquires) {
        clock.knows.join_sparse(found->second, clock.first_actor);
      } else if (clock.seen_in_gpu != found->second) {
        clock.seen_in_gpu = clock.seen_in_gpu
                                ? std::make_shared<const SparseClock>(merged(*clock.seen_in_gpu, *found->second))
                                : found->second;
      }
    });
  }
  if (!writes || (!releases && !clock.fenced)) return;
  const VectorClock& published = releases ? clock.knows : clock.at_fence;
  const bool for_gpu = gpu_wide && (releases || clock.fenced_for_gpu);
  std::shared_ptr<const SparseClock> sparse;
  if (for_gpu && !is_shared) sparse = std::make_shared<const SparseClock>(published.sparse(clock.first_actor));
  for_each_lane(access.lanes, [&](int lane) {
    cta.locations[key_of(lane)].join(published);
    if (!sparse) return;
    auto& place = locations_[key_of(lane)];
    place = place ? std::make_shared<const SparseClock>(merged(*place, *sparse)) : sparse;
  });
  if (releases) clock.tick();
}

}  // namespace flashmoe::vgpu::observe
