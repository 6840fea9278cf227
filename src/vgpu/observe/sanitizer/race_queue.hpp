// Racecheck a step behind the run. It answers nothing that the run waits for, so what it has to look at is written down
// in blocks, and a thread of its own looks at them in the same order. What it finds is told when somebody asks the
// findings for something, so that their order is that of the run. Short launches never start the thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/sanitizer/racecheck.hpp"

namespace flashmoe::vgpu::observe {

// The clocks of a block of threads. But for `joined`, only the side that looks at events touches them once the block
// runs.
struct RaceCta {
  RaceCta(std::uint32_t warp_count, std::uint64_t shared_bytes, DeferredReads::Budget& budget)
      : clock(warp_count, shared_bytes, budget), warps(warp_count) {}
  CtaClock clock;
  std::vector<WarpClock> warps;
  // Of the run's side, by warp; none until an mbarrier joins copies.
  struct JoinedCopies {
    std::array<std::uint32_t, 32> arrivals{};                // per lane
    std::array<std::vector<std::uint32_t>, 32> at_commit{};  // per lane and group: arrivals until it was closed
  };
  std::vector<JoinedCopies> joined{};
};

class RaceQueue {
 public:
  explicit RaceQueue(Racecheck& check);
  ~RaceQueue();
  RaceQueue(const RaceQueue&) = delete;
  RaceQueue& operator=(const RaceQueue&) = delete;

  [[nodiscard]] std::unique_ptr<RaceCta> cta_begins(const exec::Cta& cta);
  void cta_ends(std::unique_ptr<RaceCta> cta);
  void access(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RaceCta& cta);
  void copies_issued(const exec::Warp& warp, std::span<const exec::AsyncCopy> copies, RaceCta& cta);
  void copies_committed(const exec::Warp& warp, std::uint32_t lanes, RaceCta& cta);
  void copies_waited(const exec::Warp& warp, std::uint32_t lanes, std::uint32_t pending, RaceCta& cta);
  void barrier_arrives(const exec::Warp& warp, std::uint32_t number, bool waits, RaceCta& cta);
  void barrier_completes(const exec::Cta& of, std::uint32_t number, RaceCta& cta);
  void barrier_passes(const exec::Warp& warp, std::uint32_t number, RaceCta& cta);
  void fence(const exec::Warp& warp, exec::Scope scope, exec::FenceKind kind, RaceCta& cta);
  void object_used(const exec::Warp& warp, const exec::BarrierObjectUse& use, RaceCta& cta);
  void warp_syncs(const exec::Warp& warp, std::uint32_t lanes, RaceCta& cta);

  void catch_up();  // all events so far are looked at, and the findings told
  void finish();    // the same, and the thread ends

 private:
  struct Event {
    enum class Kind : std::uint8_t { access, issued, waited, arrives, completes, passes, fence, syncs, object, ends };
    Kind kind = Kind::access;
    exec::Scope scope = exec::Scope::cta;
    exec::FenceKind fence = exec::FenceKind::sc;
    bool is_whole = false;  // of a barrier: every warp that lives waits there
    bool waits = false;     // who arrives
    std::uint32_t warp = 0, number = 0, lanes = 0;
    std::uint32_t unchanged = 0;
    std::uint32_t live = 0;  // lanes of the warp, where it matters
    RaceCta* cta = nullptr;
    exec::Access access{};
  };
  struct Block {
    std::vector<Event> events{};
    std::vector<std::uint64_t> addresses{};     // of accesses and objects, 32 each
    std::vector<exec::LanePattern> patterns{};  // of the other accesses
    std::vector<exec::AsyncCopy> copies{};
    std::vector<Racecheck::GroupsDone> waits{};  // and of copies that an object joins
    std::vector<exec::BarrierObjectUse> uses{};
    void clear();
  };

  Event& add(Event::Kind kind, RaceCta& cta, std::uint32_t warp = 0);
  void hand_over();
  void look_at(Block& block);
  void work();

  Racecheck& check_;
  Block open_{};  // being filled
  bool is_telling_ = false;
  std::thread worker_{};
  std::mutex mutex_{};  // of all below
  std::condition_variable changed_{};
  std::deque<Block> waiting_{};
  std::vector<Block> spare_{};
  bool is_busy_ = false, is_over_ = false;
};

}  // namespace flashmoe::vgpu::observe
