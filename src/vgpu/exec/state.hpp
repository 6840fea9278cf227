// What a running grid is made of. All of it is plain data: a warp can be left and taken up again between any two
// instructions, which is how every resident CTA stays preemptible.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "vgpu/ir/kernel.hpp"
#include "vgpu/memory/device_memory.hpp"

namespace flashmoe::vgpu::exec {

inline constexpr int lanes_per_warp = 32;
inline constexpr std::uint32_t all_lanes = 0xffffffffu;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// Why a grid ended early; becomes a CUresult at the edge.
struct Fault {
  enum class Kind : std::uint8_t {
    none,
    illegal_address,
    misaligned_address,
    illegal_instruction,
    timeout,
    trap,
    assertion,
    stack_overflow,
    deadlock
  };
  Kind kind = Kind::none;
  std::string message{};
  std::uint32_t pc = 0;
  Dim3 block{}, thread{};
  std::uint64_t address = 0;
};

// One activation of a function. Lanes that diverged may be in different frames, so a split points at its own.
struct Frame {
  const ir::Function* function = nullptr;
  Frame* caller = nullptr;
  std::uint32_t return_pc = 0;
  std::uint32_t call_pc = 0;           // where the caller's call stands, for copying results back
  std::uint32_t local_offset = 0;      // of its .local variables in each lane's local memory
  std::uint32_t* registers = nullptr;  // [slots][32], 64-byte aligned
  std::uint32_t* predicates = nullptr;
  std::uint8_t* parameters = nullptr;  // [lane][parameter_bytes + call_area_bytes]
  std::uint32_t area_bytes = 0;        // parameter_bytes + call_area_bytes, rounded up to 16
  std::uint32_t lanes = 0;             // lanes that are in it or in a frame it called; 0: free to be used again
  std::uint32_t depth = 0;             // calls above it
  std::uint32_t stack_bytes = 0;       // per thread, with those of its callers
  struct Release {
    void operator()(std::uint8_t* bytes) const;
  };
  std::unique_ptr<std::uint8_t, Release> storage{};  // what the three pointers point into
  std::size_t capacity = 0;
};

struct Cta;
struct Grid;

enum class WarpState : std::uint8_t { running, at_barrier, exited };

// Lanes that share a pc. A warp holds one that runs and others that wait at a reconvergence point or for a .sync mask,
// or simply for their turn; control.cpp keeps them.
struct Split {
  std::uint32_t mask = 0;
  std::uint32_t pc = 0;
  Frame* frame = nullptr;
  enum class Wait : std::uint8_t { none, reconverge, sync, barrier } wait = Wait::none;
  std::uint32_t sync_mask = 0;              // Wait::sync: the lanes that must arrive
  std::uint32_t barrier = 0;                // Wait::barrier: its number
  std::uint32_t barrier_threads = 0;        // Wait::barrier: the thread count given; 0: the whole CTA
  bool arrives_only = false;                // Wait::barrier: bar.arrive, waits for its own warp only
  bool counted = false;                     // Wait::barrier: its warp has arrived as a whole
  std::vector<std::uint32_t> reconverge{};  // indices of open reconvergence records, innermost last
  std::uint32_t backward_branches = 0;      // since it was last scheduled
};

struct Reconvergence {  // lanes that parted and may meet again at pc
  std::uint32_t pc = 0;
  std::uint32_t expected = 0;  // lanes still under way to it or arrived; shrinks when lanes exit or are let go
  Frame* frame = nullptr;
  bool open = false;
};

// A lane's asynchronous copy, from cp.async to the moment it lands.
struct AsyncCopy {
  std::uint64_t source = 0;       // generic address
  std::uint32_t destination = 0;  // shared offset
  std::uint32_t group = 0;        // number of commit groups its lane had closed before
  std::uint32_t pc = 0;           // of the cp.async
  std::uint8_t bytes = 0, source_bytes = 0, lane = 0;
};

// What an observed run knows of a warp that goes round a loop (standstill.hpp).
struct Repetition {
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::uint64_t brief = 0, whole = 0;  // its state then
  std::uint64_t changes = never;       // Grid::changes then
  std::uint64_t still_at = never;      // Grid::changes while which it only repeats itself
  std::uint32_t looks = 0, renewed_after = 0, matches = 0;
  std::uint32_t read_pc = ir::no_slot;  // where it last read memory since then
  std::uint64_t read_address = 0;
  ir::Space read_space = ir::Space::global;
};

struct alignas(64) Warp {
  // What ops use; the main loop keeps it in step with the running split.
  std::uint32_t* registers = nullptr;  // of the running split's frame
  std::uint32_t* predicates = nullptr;
  std::uint32_t exec = 0;    // lanes that this instruction runs for: active lanes that pass the guard
  std::uint32_t active = 0;  // lanes of the running split
  std::uint32_t pc = 0;      // of the next instruction; control ops change it
  WarpState state = WarpState::running;
  bool leave = false;  // the running split changed or the warp must stop: the main loop looks up

  Frame* frame = nullptr;
  const ir::Kernel* kernel = nullptr;
  Cta* cta = nullptr;
  std::uint32_t id = 0;     // in its CTA
  std::uint32_t valid = 0;  // lanes that exist: the last warp of an odd block has fewer
  std::uint32_t exited = 0;
  std::uint64_t steps = 0;         // of the main loop: lowering's own and those no lane takes part in are among them
  std::uint64_t instructions = 0;  // executed, as a warp
  std::vector<Split> splits{};     // others than the running one
  Split current{};
  std::vector<Reconvergence> records{};
  std::vector<std::unique_ptr<Frame>> frames{};
  std::vector<std::uint8_t> local{};  // [lane][local bytes]
  std::uint32_t local_bytes_per_lane = 0;
  std::vector<AsyncCopy> copies{};  // not landed yet
  std::uint32_t committed_groups[lanes_per_warp] = {};
  void* shadow = nullptr;  // of the observer: poison of its registers, its vector clock

  // Copies of what every memory op asks for, one step away instead of four.
  std::uint8_t* shared = nullptr;
  std::uint32_t shared_bytes = 0;
  std::uint64_t global_base = 0, global_bytes = 0;
  // A load that may poll (volatile, relaxed, acquire) or an atomic ran since the last look: what spins with it must let
  // others run soon.
  bool polled = false;
  bool yielded = false;          // left the main loop because it only waits for others
  std::uint64_t slice_end = 0;   // value of `steps` at which its slice ends
  std::uint32_t barrier_pc = 0;  // of the barrier it waits at
  Repetition repetition{};

  [[nodiscard]] std::uint32_t* slot(std::uint32_t index) const {
    return registers + std::size_t{index} * lanes_per_warp;
  }
  template <class T>
  [[nodiscard]] T* lanes(std::uint32_t index) const {
    return reinterpret_cast<T*>(slot(index));
  }
};

struct Cta {
  Grid* grid = nullptr;
  Dim3 block{};  // its place in the grid
  std::uint64_t linear = 0;
  std::uint32_t sm = 0;  // the SM it would be resident on
  std::vector<Warp> warps{};
  std::vector<std::uint8_t> shared{};  // static, then dynamic
  struct Barrier {
    std::uint32_t arrived_threads = 0, expected_threads = 0;
    std::uint32_t reduction = 0, any = 0;  // of bar.red
    std::uint64_t phase = 0;
    std::vector<std::uint32_t> waiting{};  // warps
    std::uint32_t reduced_lanes = 0;       // lanes that took part in bar.red
  };
  Barrier barriers[16];
  std::uint32_t live_warps = 0;
  void* shadow = nullptr;  // of the observer
};

class Heap;
class Observer;

struct Schedule {
  std::uint64_t seed = 0;  // 0: warps and CTAs in their natural order
  enum class Copies : std::uint8_t { latest, earliest, random } copies = Copies::latest;
  std::uint32_t slice = 0;   // instructions a warp runs before another gets its turn; 0: chosen by mode
  bool parts_warps = false;  // lanes that run together may be parted: nothing promises that they stay in step
  // Short slices, parted warps, copies earliest or random by seed.
  [[nodiscard]] static Schedule adversarial(std::uint64_t seed);
};

struct Launch {
  const ir::Kernel* kernel = nullptr;
  Dim3 grid{}, block{};
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::uint8_t> parameters{};  // as laid out by Kernel::parameters
  Schedule schedule{};
  std::uint64_t instruction_budget = 20'000'000'000;  // warp instructions of the whole grid
  std::uint32_t sm_count = 1;
  std::uint32_t resident_ctas_per_sm = 1;
  double sm_clock_mhz = 1000;    // for %globaltimer
  Observer* observer = nullptr;  // set: one host thread, canonical order
  int host_threads = 0;          // 0: all
  std::uint64_t grid_id = 0;
  std::uint64_t grid_workspace = 0;  // a cooperative launch: where %envreg1 and 2 point
  std::uint32_t max_warps_per_sm = 64;
  std::uint32_t stack_bytes = 0;                    // what a thread may use; 0: as much as a device can give
  Heap* heap = nullptr;                             // of malloc; nullptr: one of the default size, for this launch
  std::uint64_t start_ns = 0;                       // where %globaltimer begins
  std::atomic<std::uint64_t>* latest_ns = nullptr;  // the latest time read from it, if somebody wants to know
  void (*print)(void* user, const char* text) = nullptr;  // device printf
  void* print_user = nullptr;
};

// How a memory instruction orders others, from its form; kept per pc for observed runs.
struct AccessTraits {
  std::uint8_t order = 0, scope = 1;  // exec::Order, exec::Scope (observer.hpp)
  bool is_volatile = false;
};

struct Grid {
  const Launch* launch = nullptr;
  const ir::Kernel* kernel = nullptr;
  memory::DeviceMemory* memory = nullptr;
  Heap* heap = nullptr;
  Observer* observer = nullptr;
  Fault fault{};  // the first one; set through raise() only
  std::atomic<bool> stopped{false};
  std::mutex mutex{};                  // of fault and of print
  std::vector<AccessTraits> traits{};  // by pc; empty in fast runs
  std::uint64_t random_state = 0;      // seeded runs have one host thread
  // Observed runs only (standstill.hpp).
  struct Write {  // of the instruction that runs
    std::uint32_t lanes = 0, bytes = 0;
    std::uint64_t host[lanes_per_warp] = {};
    std::uint8_t before[lanes_per_warp][32] = {};
  } write{};
  std::uint64_t changes = 0;  // writes that left another value
  bool reads_clock = false;
};

struct Outcome {
  Fault fault{};
  std::uint64_t warp_instructions = 0;
};

// Runs the grid to its end or its first fault.
[[nodiscard]] Outcome run(const Launch& launch, memory::DeviceMemory& memory);

// Stops the grid with this fault (the first one counts) and the warp with it.
void raise(Warp& warp, Fault::Kind kind, std::string message, int lane = 0, std::uint64_t address = 0);

}  // namespace flashmoe::vgpu::exec
