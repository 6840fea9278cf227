// Two accesses to the same bytes, one of them a write, with nothing that orders them. Order comes from
//   the warp's own program, lane by lane: different lanes of a warp meet only at a bar.warp.sync that names both, or at
//   a CTA barrier;
//   barriers, named ones too: those who wait come after those who arrived;
//   fences with an atomic, volatile or relaxed access of one location on both sides (PTX ISA 8.8 to 8.10: release and
//   acquire patterns), or acquire and release accesses, within the scopes they name, for the lane that executes them;
//   fence.sc, which __threadfence() is, on both sides of such accesses, also where another thread fenced and a barrier
//   came between;
//   mbarriers: who waited for a phase comes after its arrivals;
//   cp.async: an actor of its own that begins where it was issued and joins its thread at the wait for its group, or
//   those who wait for the mbarrier that it arrives at.
// Two accesses that are volatile or atomic race with nobody; but volatile does not keep the lanes of a warp in step, so
// data that lanes pass each other that way is judged as if it were not. And what the launch itself wrote is not for
// ld.global.nc, in whatever order (PTX ISA 9.7.9.8: the memory must be read-only).
// A copy is judged and recorded when it is issued, so a finding does not depend on when the schedule lets it land.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/finding.hpp"
#include "vgpu/observe/sanitizer/access_history.hpp"
#include "vgpu/observe/sanitizer/race_clocks.hpp"

namespace flashmoe::vgpu::observe {

// Shared and global locations in one numbering.
[[nodiscard]] inline std::uint64_t location_of(ir::Space space, std::uint64_t address) {
  return address + (space == ir::Space::shared ? memory::shared_window : 0);
}

class Racecheck {
 public:
  // `by_lane`: every access is looked at when it comes, lane by lane. What is found is the same.
  explicit Racecheck(FindingLog& log, bool by_lane = false) : log_(log), by_lane_(by_lane) {}

  void grid_begins(const exec::Grid& grid);
  void grid_ends();
  [[nodiscard]] DeferredReads::Budget& deferred_reads() { return deferred_reads_; }
  void cta_begins(const exec::Cta& cta, CtaClock& clocks);
  void warp_begins(const exec::Warp& warp, CtaClock& cta, WarpClock& clock);

  // `unchanged`: lanes that store what is there already. Its addresses may be left to the pattern.
  void access(exec::Access access, std::uint32_t unchanged, WarpClock& clock, CtaClock& cta);
  void copies_issued(std::span<const exec::AsyncCopy> copies, WarpClock& clock, CtaClock& cta);
  using GroupsDone = std::array<std::uint32_t, 32>;  // per lane: groups that have landed
  void copies_waited(std::uint32_t lanes, const GroupsDone& done, WarpClock& clock);
  // `waits`: it does nothing more before the barrier is complete.
  void barrier_arrives(std::uint32_t number, bool waits, WarpClock& clock, CtaClock& cta);
  // `is_whole`: every warp that lives waits there.
  void barrier_completes(std::uint32_t number, bool is_whole, CtaClock& cta);
  void barrier_passes(std::uint32_t number, WarpClock& clock, CtaClock& cta);
  void fence(std::uint32_t lanes, exec::Scope scope, exec::FenceKind kind, WarpClock& clock, CtaClock& cta);
  // `done`: of copies_arrive, groups that the object joins.
  void object_used(const exec::BarrierObjectUse& use, const GroupsDone& done, WarpClock& clock, CtaClock& cta);
  void warp_syncs(std::uint32_t lanes, WarpClock& clock, CtaClock& cta);

  // These two are of the run's own thread. Two lanes of one store in the same place; what the events above gave rise
  // to.
  void same_instruction(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access);
  void tell();
  void settle();  // no further event comes: what is still a guess is a suspicion

 private:
  enum class Verdict : std::uint8_t {
    ordered,
    copy_under_way,
    unsynchronised_copy,
    within_warp,
    unordered,
    scope,
    not_read_only,
  };
  struct Now {  // the access being judged
    WarpClock& clock;
    CtaClock& cta;
    ir::Space space;
    AccessRecord record;
    bool is_write;
    std::uint64_t address;  // of the lane
    std::uint32_t bytes;
    std::uint32_t unchanged;
    bool is_read_only;  // ld.global.nc
  };
  struct Suspicion {  // a finding that is not told yet
    AccessRecord mine, before;
    bool is_write, before_writes;
    Verdict verdict;
    ir::Space space;
    std::uint64_t address;
    std::uint64_t times;
    // Each is told of the same two places: what orders the lanes of a warp does not order warps.
    [[nodiscard]] std::uint32_t kind() const {
      return verdict == Verdict::copy_under_way ? 2 : verdict == Verdict::within_warp ? 1 : 0;
    }
  };

  [[nodiscard]] Verdict judge(const AccessRecord& before, const Now& now) const;
  [[nodiscard]] bool is_ordered(const AccessRecord& before, const Now& now) const;
  // `words`: how many the cell stands for; a finding counts for each.
  void touch_read(AccessHistory& history, Cell& cell, const Now& now, std::uint32_t words);
  void touch_write(AccessHistory& history, Cell& cell, const Now& now, std::uint32_t words);
  template <bool is_write>
  void touch(AccessHistory& history, Cell& cell, const Now& now, std::uint32_t words);
  // Whole rows of a warp at once; false where lanes might be judged differently, or there is something to say.
  template <bool is_write>
  [[nodiscard]] bool touch_row(AccessHistory& history, Row& row, const Now& now, std::uint32_t shift);
  template <bool is_write>
  [[nodiscard]] bool is_alike(AccessHistory& history, const Cell& cell, const Now& now) const;
  template <bool is_write, class History>
  void touch_rows(History& history, exec::Access& access, Now& now);
  template <bool is_write, class History>
  void touch_lanes(History& history, const exec::Access& access, Now& now);
  template <class History>
  [[nodiscard]] static bool is_known(History& history, Quad& quad, std::uint64_t number, const Now& now);
  template <bool is_write, class History>
  void touch_bytes(History& history, Now& now);
  template <bool is_write, class History>
  void touch_quad(History& history, Quad& quad, std::uint64_t number, Now& now);
  // Whether the read is put off; else those that must be looked at before it are.
  [[nodiscard]] bool put_off(const exec::Access& access, const AccessRecord& record, WarpClock& clock, CtaClock& cta);
  // Before anybody comes to know more than when they were put off.
  void look_at_reads(CtaClock& cta);
  void synchronise(const exec::Access& access, WarpClock& clock, CtaClock& cta);
  void find_compared(const ir::Kernel& kernel);
  [[nodiscard]] bool passes_data(const exec::Access& access) const;
  void join_copies(std::uint32_t lanes, const GroupsDone& done, WarpClock& clock);
  void suspect(const Now& now, const AccessRecord& before, bool before_writes, std::uint32_t words);
  void suspect(const Suspicion& race);
  void report(const Suspicion& suspicion);

  FindingLog& log_;
  bool by_lane_;
  const exec::Grid* grid_ = nullptr;
  std::uint32_t warps_per_cta_ = 1;
  std::unique_ptr<GlobalHistory> global_{};
  DeferredReads::Budget deferred_reads_{};
  std::vector<Suspicion> suspicions_{};
  std::unordered_map<std::uint64_t, std::size_t> suspected_{};  // both places -> index
  // By the warp that loaded, and from where: may turn out to be compare-and-swap.
  std::map<std::pair<std::uint32_t, std::uint64_t>, Suspicion> guesses_{};
  // What releases at GPU scope left at a location.
  std::unordered_map<std::uint64_t, Left> locations_{};
  std::vector<bool> is_compared_{};  // by pc: a load whose value is asked about before anything else
};

}  // namespace flashmoe::vgpu::observe
