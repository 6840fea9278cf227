// What an observed run tells. Exec calls it, observe/ implements it; a fast run has none. All calls come from one host
// thread, in the canonical order of the schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "vgpu/exec/lane_pattern.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

enum class AccessKind : std::uint8_t { load, store, atomic, async_read, async_write };
enum class Scope : std::uint8_t { cta, gpu, system };
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel };
enum class FenceKind : std::uint8_t { sc, acq_rel, acquire, release };  // membar is fence.sc (PTX ISA 9.7.13.4)

// One memory instruction of a warp, one state space: generic addresses were sorted into spaces before.
struct Access {
  ir::Space space = ir::Space::global;  // global (also .const), shared, local, param
  AccessKind kind = AccessKind::load;
  std::uint32_t lanes = 0;                 // that access it
  const std::uint64_t* address = nullptr;  // [32]: device address, or offset in shared or local memory
  const LanePattern* pattern = nullptr;    // of the addresses, where all lanes access it and they have one
  std::uint32_t bytes = 0;                 // per lane
  Order order = Order::weak;
  Scope scope = Scope::gpu;
  bool is_volatile = false;
  bool is_non_coherent = false;    // ld.global.nc
  bool is_barrier_object = false;  // mbarrier: what it orders, barrier_object_used() tells
  bool is_matrix = false;          // ldmatrix/stmatrix: address of rows of 16 bytes, lanes are the row lanes
  std::uint32_t pc = 0;
  // async_read, async_write: the copies of one instruction that land now, by lane; some may not be in `lanes`.
  std::span<const AsyncCopy> copies{};
};

// What an instruction did to mbarrier objects, after it ran.
struct BarrierObjectUse {
  enum class Kind : std::uint8_t { init, arrive, copies_arrive, wait } kind = Kind::init;  // inval is an init, too
  bool is_relaxed = false;
  std::uint32_t lanes = 0;
  std::uint32_t passed = 0;              // arrivals that ended a phase, in the order of lanes; waits that were told so
  const std::uint64_t* place = nullptr;  // [32]: offset of the object in shared memory
};

enum class SyncProblem : std::uint8_t {
  divergent_barrier,  // bar.sync (aligned) with lanes of the warp elsewhere
  barrier_count,      // threads arrived do not fit the count, or exited threads are waited for
  bad_mask,           // .sync mask without the executing lane, or with lanes that cannot arrive
  missing_wait,       // the CTA ended, or shared memory was read, with copies under way
  deadlock,
  polling,       // all that live wait for a value that nobody is left to write
  endless_loop,  // the same, without a look at memory
};

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;
  virtual void grid_begins(Grid&) {}
  virtual void grid_ends(Grid&, std::uint64_t /*warp_instructions*/) {}  // of all CTAs, watched or not
  virtual void cta_begins(Cta&) {}                                       // its warps exist
  virtual void cta_ends(Cta&) {}
  // An observer that does not watch all CTAs: what the others run, the kernel's code for fast runs. Of those it is told
  // their beginning and nothing else. nullptr: it watches all of this launch.
  [[nodiscard]] virtual const std::vector<ir::Inst>* unwatched_code() const { return nullptr; }
  [[nodiscard]] virtual bool watches(const Cta&) const { return true; }  // one that has begun
  // Every instruction for which warp.exec != 0 (or that runs empty); pc is the instruction's own.
  virtual void before(Warp&, const ir::Inst&, std::uint32_t /*pc*/) {}
  // Before the data moves. Returns the lanes whose access may be carried out; the others read zero and write nothing.
  virtual std::uint32_t access(Warp&, const ir::Inst&, const Access& access) { return access.lanes; }
  virtual void branch(Warp&, const ir::Inst&, std::uint32_t /*pc*/, std::uint32_t /*taken*/,
                      std::uint32_t /*not_taken*/) {}
  virtual void frame_begins(Warp&, Frame&) {}  // a call; its registers hold nothing yet
  // Lanes arrive at barrier `number`; then, when it is complete, all who took part go on.
  virtual void barrier_arrives(Warp&, const ir::Inst&, std::uint32_t /*number*/, std::uint32_t /*lanes*/,
                               bool /*waits*/) {}
  virtual void barrier_completes(Cta&, std::uint32_t /*number*/) {}
  virtual void barrier_passes(Warp&, std::uint32_t /*number*/) {}  // a waiting warp goes on
  virtual void fence(Warp&, Scope, FenceKind) {}
  virtual void barrier_object_used(Warp&, const BarrierObjectUse&) {}
  // The lanes that a mask names have met for the .sync op at pc.
  virtual void warp_syncs(Warp&, std::uint32_t /*lanes*/, std::uint32_t /*pc*/) {}
  // cp.async: the copies of an instruction were issued; their group was closed; they landed (access() of both sides
  // came before); were waited for.
  virtual void copies_issued(Warp&, std::span<const AsyncCopy>) {}
  virtual void copies_committed(Warp&, std::uint32_t /*lanes*/) {}
  virtual void copies_waited(Warp&, std::uint32_t /*lanes*/, std::uint32_t /*pending groups allowed*/) {}
  virtual void sync_problem(Warp&, SyncProblem, std::uint32_t /*pc*/, std::string_view /*detail*/) {}
};

// The observer, where it watches this CTA.
[[nodiscard]] inline Observer* observer_of(const Cta& cta) {
  Observer* const observer = cta.grid->observer;
  return observer != nullptr && observer->watches(cta) ? observer : nullptr;
}

}  // namespace flashmoe::vgpu::exec
