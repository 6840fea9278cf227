#include "vgpu/exec/frames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"
#include "vgpu/ir/layout.hpp"

namespace flashmoe::vgpu::exec {

namespace {

constexpr std::uint32_t deepest_call = 2048;
constexpr std::size_t alignment = 64;

[[nodiscard]] std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

// Bytes of local memory that a frame takes from each lane.
[[nodiscard]] std::uint32_t local_bytes(const ir::Function& function) {
  return static_cast<std::uint32_t>(round_up(function.local_bytes, 16));
}

void grow_local(Warp& warp, std::uint32_t bytes) {
  if (bytes <= warp.local_bytes_per_lane) {
    return;
  }
  const std::uint32_t grown = std::min(ir::kMostLocalBytes, std::max(bytes, 2 * warp.local_bytes_per_lane));
  std::vector<std::uint8_t> local(std::size_t{grown} * lanes_per_warp);
  for (std::size_t lane = 0; lane < lanes_per_warp && warp.local_bytes_per_lane != 0; ++lane) {
    std::memcpy(local.data() + lane * grown, warp.local.data() + lane * warp.local_bytes_per_lane,
                warp.local_bytes_per_lane);
  }
  warp.local = std::move(local);
  warp.local_bytes_per_lane = grown;
}

[[nodiscard]] Frame& free_frame(Warp& warp, std::size_t bytes) {
  for (const std::unique_ptr<Frame>& frame : warp.frames) {
    if (frame->lanes == 0 && frame->capacity >= bytes) {
      return *frame;
    }
  }
  auto frame = std::make_unique<Frame>();
  frame->storage.reset(static_cast<std::uint8_t*>(::operator new (bytes, std::align_val_t{alignment})));
  frame->capacity = bytes;
  warp.frames.push_back(std::move(frame));
  return *warp.frames.back();
}

void fill_constants(const Frame& frame) {
  for (const ir::Constant& constant : frame.function->constants) {
    std::uint32_t* const slot = frame.registers + std::size_t{constant.slot} * lanes_per_warp;
    const std::uint64_t bits = constant.bits + (constant.local ? frame.local_offset : 0);
    if (constant.wide) {
      std::fill_n(reinterpret_cast<std::uint64_t*>(slot), lanes_per_warp, bits);
    } else {
      std::fill_n(slot, lanes_per_warp, static_cast<std::uint32_t>(bits));
    }
  }
  for (const std::uint32_t index : frame.function->true_predicates) {
    frame.predicates[index] = all_lanes;
  }
}

}  // namespace

void Frame::Release::operator()(std::uint8_t* bytes) const {
  ::operator delete (bytes, std::align_val_t{alignment});
}

Frame* enter_frame(Warp& warp, const ir::Function& function, Frame* caller, std::uint32_t lanes) {
  const std::uint32_t local_offset = caller == nullptr ? 0 : caller->local_offset + local_bytes(*caller->function);
  const std::uint32_t local_end = local_offset + local_bytes(function);
  const std::uint32_t depth = caller == nullptr ? 0 : caller->depth + 1;
  const std::uint32_t stack_bytes = function.stack_bytes + (caller == nullptr ? 0 : caller->stack_bytes);
  const std::uint32_t asked = warp.cta->grid->launch->stack_bytes;
  const std::uint32_t most_stack = asked == 0 ? ir::kMostLocalBytes : asked;
  if (depth > deepest_call || local_end > ir::kMostLocalBytes || stack_bytes > most_stack) {
    raise(warp, Fault::Kind::stack_overflow,
          fmt::format("call of {} at depth {} with {} bytes of stack and {} of local memory; a thread has {} and {}, "
                      "and at most {} calls (cuCtxSetLimit(CU_LIMIT_STACK_SIZE, ...) raises the first)",
                      function.name, depth, stack_bytes, local_end, most_stack, ir::kMostLocalBytes, deepest_call),
          first_lane(lanes));
    return nullptr;
  }
  grow_local(warp, local_end);

  const std::size_t register_bytes = std::size_t{function.slots} * lanes_per_warp * sizeof(std::uint32_t);
  // One word before the predicates holds "all lanes": guard 0 reads it, so the main loop needs no branch for it.
  const std::size_t predicate_bytes = round_up((function.predicates + 1) * sizeof(std::uint32_t), alignment);
  const std::size_t area_bytes = round_up(function.parameter_bytes + function.call_area_bytes, 16);
  const std::size_t bytes = register_bytes + predicate_bytes + area_bytes * lanes_per_warp;

  Frame& frame = free_frame(warp, bytes);
  std::uint8_t* const storage = frame.storage.get();
  // Zero, not what an earlier warp left: a kernel that reads an unset register gives the same result in every run.
  std::memset(storage, 0, bytes);
  frame.function = &function;
  frame.caller = caller;
  frame.local_offset = local_offset;
  frame.registers = reinterpret_cast<std::uint32_t*>(storage);
  frame.predicates = reinterpret_cast<std::uint32_t*>(storage + register_bytes) + 1;
  frame.predicates[-1] = all_lanes;
  frame.parameters = storage + register_bytes + predicate_bytes;
  frame.area_bytes = static_cast<std::uint32_t>(area_bytes);
  frame.lanes = lanes;
  frame.depth = depth;
  frame.stack_bytes = stack_bytes;
  fill_constants(frame);
  return &frame;
}

void release_frames(Warp&, Frame* frame, std::uint32_t lanes) {
  for (; frame != nullptr; frame = frame->caller) {
    frame->lanes &= ~lanes;
  }
}

void use_frame(Warp& warp, Frame* frame) {
  warp.frame = frame;
  warp.current.frame = frame;
  warp.registers = frame->registers;
  warp.predicates = frame->predicates;
}

}  // namespace flashmoe::vgpu::exec
