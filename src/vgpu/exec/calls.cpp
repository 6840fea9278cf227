#include "vgpu/exec/calls.hpp"

#include <fmt/format.h>

#include <cstring>

#include "vgpu/exec/flow.hpp"
#include "vgpu/exec/frames.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"

namespace flashmoe::vgpu::exec {

namespace {

struct Passed {  // one return value or argument, as Kernel::lists has it
  std::uint32_t caller_offset, callee_offset, bytes;
};

template <class Copy>
void for_each_passed(const Warp& warp, const ir::Inst& call, bool returns, Copy&& copy) {
  if (call.list == ir::no_slot) {
    return;
  }
  const std::uint32_t* list = warp.kernel->lists.data() + call.list;
  const std::uint32_t return_count = *list++, argument_count = *list++;
  list += returns ? 0 : 3 * return_count;
  for (std::uint32_t i = 0; i < (returns ? return_count : argument_count); ++i, list += 3) {
    copy(Passed{list[0], list[1], list[2]});
  }
}

[[nodiscard]] std::uint8_t* area(const Frame& frame, int lane) {
  return frame.parameters + static_cast<std::size_t>(lane) * frame.area_bytes;
}

[[nodiscard]] const ir::Function* function_at(const ir::Kernel& kernel, std::uint64_t address) {
  for (const ir::Function& function : kernel.functions) {
    if (function.address == address && address != 0) {
      return &function;
    }
  }
  return nullptr;
}

// A caller copies by its prototype, into an area that was made for the function: one must be as the other.
[[nodiscard]] bool passes_what_it_takes(const Warp& warp, const ir::Inst& call, const ir::Function& function) {
  const auto fits = [&](bool returns, const std::vector<ir::Signature::Place>& places) {
    std::size_t i = 0;
    bool same = true;
    for_each_passed(warp, call, returns, [&](const Passed& passed) {
      same = same && i < places.size() && passed.callee_offset == places[i].offset && passed.bytes == places[i].bytes;
      ++i;
    });
    return same && i == places.size();
  };
  return fits(true, function.signature.results) && fits(false, function.signature.arguments);
}

[[nodiscard]] ir::Signature signature_of(const Warp& warp, const ir::Inst& call) {
  ir::Signature signature;
  for (const bool returns : {true, false})
    for_each_passed(warp, call, returns, [&](const Passed& passed) {
      (returns ? signature.results : signature.arguments).push_back({passed.callee_offset, passed.bytes});
    });
  return signature;
}

// The callee of the first lane, and the lanes that call the same one.
struct Callee {
  const ir::Function* function = nullptr;
  std::uint32_t lanes = 0;
};
[[nodiscard]] Callee callee_of(Warp& warp, const ir::Inst& inst) {
  if (inst.target != ir::no_slot) {
    return {&warp.kernel->functions[inst.target], warp.exec};
  }
  const std::uint64_t* const addresses = warp.lanes<std::uint64_t>(inst.a);
  const int first = first_lane(warp.exec);
  std::uint32_t lanes = 0;
  for_each_lane(warp.exec, [&](int lane) { lanes |= addresses[lane] == addresses[first] ? 1u << lane : 0; });
  const ir::Function* const function = function_at(*warp.kernel, addresses[first]);
  if (function == nullptr) {
    raise(warp, Fault::Kind::illegal_instruction,
          fmt::format("calls through {:#x}, which is the address of no function", addresses[first]), first,
          addresses[first]);
  } else if (!passes_what_it_takes(warp, inst, *function)) {
    raise(warp, Fault::Kind::illegal_instruction,
          fmt::format("calls {} as {} (sizes in bytes): a function pointer of the wrong type",
                      function->signature.text(function->name), signature_of(warp, inst).text("prototype")),
          first, addresses[first]);
    return {};
  }
  return {function, lanes};
}

template <Mode mode>
void call(Warp& warp, const ir::Inst& inst) {
  const Callee callee = callee_of(warp, inst);
  if (callee.function == nullptr) {
    return;
  }
  const std::uint32_t call_pc = warp.pc - 1, return_pc = warp.pc;
  const std::uint32_t waiting = warp.exec & ~callee.lanes;  // call another function, in their own turn
  const std::uint32_t passing = warp.active & ~warp.exec;   // the guard keeps them from the call
  if (!callee.function->builtin.empty()) {
    warp.exec = callee.lanes;
    run_builtin(warp, inst, *callee.function);
    if (waiting != 0 && !warp.leave) {  // the same instruction again for the rest
      warp.exec = waiting;
      call<mode>(warp, inst);
    }
    return;
  }
  // Whoever returns waits for the others behind the call.
  expect_at(warp, return_pc);
  if (passing != 0) {
    put_aside(warp, passing, return_pc, return_pc);
  }
  if (waiting != 0) {
    put_aside(warp, waiting, call_pc, -1);
  }
  Frame* const caller = warp.frame;
  Frame* const frame = enter_frame(warp, *callee.function, caller, warp.active);
  if (frame == nullptr) {
    return;
  }
  frame->return_pc = return_pc;
  frame->call_pc = call_pc;
  for_each_passed(warp, inst, false, [&](const Passed& passed) {
    for_each_lane(warp.active, [&](int lane) {
      std::memcpy(area(*frame, lane) + passed.callee_offset, area(*caller, lane) + passed.caller_offset, passed.bytes);
    });
  });
  use_frame(warp, frame);
  warp.pc = callee.function->entry;
  if constexpr (mode == Mode::observed) {
    if (Observer* const observer = warp.cta->grid->observer) {
      observer->frame_begins(warp, *frame);
    }
  }
}

}  // namespace

void return_lanes(Warp& warp, const ir::Inst&) {
  Frame* const frame = warp.frame;
  if (frame->caller == nullptr) {
    exit_lanes(warp, warp.exec);
    return;
  }
  if (const std::uint32_t staying = warp.active & ~warp.exec; staying != 0) {
    put_aside(warp, staying, warp.pc, -1);
  }
  forget_frame(warp, frame);
  const ir::Inst& call = warp.kernel->code[frame->call_pc];
  Frame* const caller = frame->caller;
  for_each_passed(warp, call, true, [&](const Passed& passed) {
    for_each_lane(warp.active, [&](int lane) {
      std::memcpy(area(*caller, lane) + passed.caller_offset, area(*frame, lane) + passed.callee_offset, passed.bytes);
    });
  });
  frame->lanes &= ~warp.active;
  use_frame(warp, caller);
  warp.pc = frame->return_pc;
  arrive(warp);
}

ir::Handler call_handler(Mode mode) {
  return mode == Mode::fast ? &call<Mode::fast> : &call<Mode::observed>;
}

}  // namespace flashmoe::vgpu::exec
