// Lanes of a warp that part and meet again (independent thread scheduling). Invariant: a lane is expected by a
// reconvergence record exactly when the split that holds the lane has the record on its stack.
#pragma once

#include <cstdint>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

// `taken` (some, not all active lanes) go to `target`, the others go on at warp.pc. `meet` is the pc of the
// vgpu.reconverge where they may meet again; -1: none.
void diverge(Warp& warp, std::uint32_t taken, std::uint32_t target, std::int64_t meet);

// Some of the running lanes go to `target` when it is their turn. False: they wait there, it is the meeting point.
bool put_aside(Warp& warp, std::uint32_t lanes, std::uint32_t target, std::int64_t meet);

// The running lanes stand at warp.pc. When they are expected there and others are still under way they wait, and
// another split runs. True: they go on, perhaps with others that waited here.
bool arrive(Warp& warp);

// All running lanes go to `target`; a loop that polls lets others run.
inline void jump(Warp& warp, std::uint32_t target);

// The op at warp.pc is a CTA barrier, which collects the lanes of its warp itself.
[[nodiscard]] bool waits_by_itself(const Warp& warp);
// The running lanes wait for the lanes of slot `m` of a .sync op (each lane names its own mask).
void wait_for_mask(Warp& warp, const ir::Inst& inst);

// Lanes end. The warp goes on with the others.
void exit_lanes(Warp& warp, std::uint32_t lanes);

// Puts the running lanes aside: they go on at warp.pc when `wait` is over. The warp runs nothing then; next_split().
void park(Warp& warp, Split::Wait wait);

// Another split takes over; none can: the warp waits at a barrier, has exited or is stuck (which is raised).
void next_split(Warp& warp);
// As next_split, but only among those that can run now. False: none.
[[nodiscard]] bool take_runnable(Warp& warp);

// A new record for all running lanes, on top of their stack.
void expect_at(Warp& warp, std::uint32_t pc);
// The running lanes forget the records of a frame that they leave.
void forget_frame(Warp& warp, const Frame* frame);

// The running split has gone round a loop often: whoever waits for it, or it waits for, gets a turn.
void look_around(Warp& warp);

inline constexpr std::uint32_t branches_between_looks = 64;  // a power of two

inline void jump(Warp& warp, std::uint32_t target) {
  const bool is_backward = target < warp.pc;
  warp.pc = target;
  if (is_backward && (++warp.current.backward_branches & (branches_between_looks - 1)) == 0) {
    look_around(warp);
  }
}

}  // namespace flashmoe::vgpu::exec
