// What orders accesses, as clocks: of a warp and its lanes, of a CTA, of a memory barrier object.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/sanitizer/access_history.hpp"
#include "vgpu/observe/sanitizer/deferred_reads.hpp"
#include "vgpu/observe/sanitizer/vector_clock.hpp"

namespace flashmoe::vgpu::observe {

// Copies that an mbarrier joins are known by themselves, not through the thread that issued them (PTX ISA 8.9.1.1).
[[nodiscard]] constexpr std::uint32_t copies_of(std::uint32_t actor) {
  return actor | 0x80000000u;
}

// A fence of some lanes: what was known before it.
struct FencePoint {
  MessagePtr known{};
  std::uint32_t actor = 0, clock = 0;
  bool is_sc = false;  // fence.sc and membar
  // Of these lanes, each of which executed it; `whole`: they are all that live.
  [[nodiscard]] MessagePtr released(std::uint32_t lanes, bool whole) const;
};

// What a lane knows beyond its warp. Most lanes know no more, and have none.
struct LaneKnowledge {
  MessagePtr acquired{}, fenced{};
  MessagePtr seen_in_cta{}, seen_in_gpu{}, seen_fenced{};  // by strong reads; a fence will make it known
  std::shared_ptr<const FencePoint> fence{}, gpu_fence{};  // the last ones
};

// What strong writes left at a place.
struct Left {
  MessagePtr released{};  // for whoever acquires
  MessagePtr fenced{};    // for a fence.sc
  [[nodiscard]] bool is_empty() const { return !released && !fenced; }
  void join(const Left& other) {
    observe::join(released, other.released);
    observe::join(fenced, other.fenced);
  }
};

// Of one warp.
struct WarpClock {
  struct CopyGroup {
    std::uint32_t waited_lanes = 0;
    std::uint32_t waited_at = 0;  // clock after the wait
    static constexpr std::uint32_t never = 0xffffffff;
    std::uint32_t landed_at = never;                             // the same, once every lane has waited
    std::unique_ptr<std::array<std::uint32_t, 32>> joined_at{};  // per lane: when an mbarrier joined it; 0: none did
    std::uint64_t pages = 0;  // of shared memory that they write, as DeferredReads has them
  };
  VectorClock knows{};
  // What the fence.sc that come before made visible, of whichever thread. A strong write hands it on to a fence.sc
  // behind the read that sees it: of the two fences that one is the later in Fence-SC order, as the read would
  // otherwise precede the write that it sees (PTX ISA 8.9.3, 8.9.4, 8.10.6).
  MessagePtr fenced{};
  // What strong reads of the CTA found before a barrier. More than the memory model grants, for volatile and atomic
  // reads alone: one thread takes a ticket, and behind the barrier all read what came with it, as the CUDA C++
  // Programming Guide shows it (Memory Fence Functions).
  MessagePtr told{};
  std::uint32_t actor = 0, id = 0, first_actor = 0;
  std::uint32_t valid = 0;       // lanes that there are
  std::uint32_t live = 0;        // and have not exited
  std::uint32_t whole_sync = 0;  // clock after all of them last met
  // Where only some met since then: up to which clock lane [i] knows lane [j].
  using Meetings = std::array<std::array<std::uint32_t, 32>, 32>;
  std::unique_ptr<Meetings> meetings{};
  std::unique_ptr<std::array<LaneKnowledge, 32>> lanes{};
  bool lanes_differ = false;  // one of them knows more, or has fenced, since all met
  std::vector<CopyGroup> groups{};
  std::size_t landed_groups = 0;                  // so many from the first on have landed, as far as was looked
  std::array<std::uint32_t, 32> groups_done{};    // per lane: groups known to be complete
  std::array<std::uint32_t, 32> groups_joined{};  // per lane: those that an mbarrier has joined

  [[nodiscard]] std::uint32_t clock() const { return knows.own[id]; }
  void tick() { ++knows.own[id]; }
  void meet(std::uint32_t who);
  // Whether what `other` did at clock `when` comes before what `lane` does now.
  [[nodiscard]] bool have_met(std::uint32_t other, std::uint32_t lane, std::uint32_t when) const {
    return whole_sync > when || (meetings && (*meetings)[lane][other] > when) || has_message(lane, actor, other, when);
  }
  // The same of a lane of another warp, or of copies, by what was acquired.
  [[nodiscard]] bool has_message(std::uint32_t lane, std::uint32_t of, std::uint32_t other, std::uint32_t when) const {
    if (knows.beyond && knows.beyond->knows(of, other, when)) return true;
    return lanes_differ && (*lanes)[lane].acquired && (*lanes)[lane].acquired->knows(of, other, when);
  }

  // Of shared memory, of copies that not all its lanes have waited for.
  [[nodiscard]] std::uint64_t pages_of_copies();
  [[nodiscard]] bool is_whole(std::uint32_t who) const { return (live & ~who) == 0; }
  [[nodiscard]] LaneKnowledge& lane(int number);
  // What these lanes, all of them, acquire.
  void learn(std::uint32_t who, const MessagePtr& message);
  void learn(std::uint32_t who, const Left& left);
  // What a release of these lanes, one after another, makes visible.
  [[nodiscard]] MessagePtr released(std::uint32_t who) const;
  void fence(std::uint32_t who, exec::Scope scope, exec::FenceKind kind);

  struct Together {
    MessagePtr acquired{}, fenced{};
  };
  // What strong reads of its lanes found, and no fence has made known yet.
  [[nodiscard]] MessagePtr seen() const;
  // What one of these lanes knows and the warp does not.
  [[nodiscard]] Together together(std::uint32_t who) const;

 private:
  [[nodiscard]] MessagePtr known_before(std::uint32_t who) const;
};

// An mbarrier: who waits for a phase comes after the arrivals of that phase and those before, not of the next.
struct ObjectClock {
  Left arriving{}, completed{};
};

// Of one CTA.
struct CtaClock {
  CtaClock(std::uint32_t warp_count, std::uint64_t shared_bytes, DeferredReads::Budget& budget)
      : shared(warp_count, shared_bytes), reads(shared_bytes, budget) {}
  struct Barrier {
    VectorClock clock{};
    MessagePtr fenced{}, told{};
    std::uint64_t waiting = 0;  // warps
  };
  SharedHistory shared;
  DeferredReads reads;
  std::uint64_t users = 0;  // warps that use shared memory in a way that the others do not know of yet
  std::array<Barrier, 16> arriving{}, released{};
  std::unordered_map<std::uint64_t, Left> locations{};       // of releases at CTA scope, by generic address
  std::unordered_map<std::uint64_t, ObjectClock> objects{};  // by offset in shared memory
  std::vector<WarpClock*> warps{};
};

}  // namespace flashmoe::vgpu::observe
