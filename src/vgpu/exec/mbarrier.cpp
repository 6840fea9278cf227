// mbarrier objects (PTX ISA 9.7.13.15): 64 bits in shared memory that count arrivals phase by phase. The layout is this
// machine's own, as it is every device's own.
#include <cstdint>

#include "vgpu/exec/addresses.hpp"
#include "vgpu/exec/async_copy.hpp"
#include "vgpu/exec/host_access.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/memory_parts.hpp"
#include "vgpu/exec/observer.hpp"

namespace flashmoe::vgpu::exec {

namespace {

using ir::Space;

struct State {
  std::uint32_t pending = 0, expected = 0;  // arrivals, 20 bits each
  std::uint32_t phase = 0;
};

constexpr std::uint64_t count_mask = (1u << 20) - 1;

[[nodiscard]] State unpack(std::uint64_t bits) {
  return {static_cast<std::uint32_t>(bits & count_mask), static_cast<std::uint32_t>(bits >> 20 & count_mask),
          static_cast<std::uint32_t>(bits >> 40)};
}

[[nodiscard]] std::uint64_t pack(const State& state) {
  return (state.pending & count_mask) | (state.expected & count_mask) << 20 | std::uint64_t{state.phase} << 40;
}

// The phase ends when nobody is waited for any more; the next one waits for as many as are expected then.
[[nodiscard]] bool complete(State& state) {
  if (state.pending != 0) {
    return false;
  }
  state.phase = (state.phase + 1) & 0xffffff;
  state.pending = state.expected;
  return true;
}

using Use = BarrierObjectUse::Kind;

// `body` answers what BarrierObjectUse::passed says of the lane. Returns the lanes for which it is so.
template <Mode mode, Space space, class Body>
std::uint32_t for_each_object(Warp& warp, const ir::Inst& inst, AccessKind kind, Use what, Body&& body) {
  Targets at;
  const std::uint32_t lanes = resolve<mode, space>(warp, inst, kind, at);
  std::uint32_t passed = 0;
  for_each_lane(lanes, [&](int lane) { passed |= body(lane, at.host[lane]) ? 1u << lane : 0; });
  if constexpr (mode == Mode::observed) {
    if (Observer* const observer = warp.cta->grid->observer; observer != nullptr && lanes != 0) {
      std::uint64_t place[lanes_per_warp] = {};
      for_each_lane(lanes,
                    [&](int lane) { place[lane] = at.host[lane] - reinterpret_cast<std::uint64_t>(warp.shared); });
      const bool is_relaxed = warp.kernel->info[warp.pc - 1].form.has("relaxed");
      observer->barrier_object_used(warp, {what, is_relaxed, lanes, passed, place});
    }
  }
  return passed;
}

template <Mode mode, Space space>
void init(Warp& warp, const ir::Inst& inst) {
  const std::uint32_t* const count = warp.slot(inst.b);
  for_each_object<mode, space>(warp, inst, AccessKind::store, Use::init, [&](int lane, std::uint64_t host) {
    store_host<std::uint64_t>(host, pack({count[lane], count[lane], 0}));
    return false;
  });
}

template <Mode mode, Space space>
void invalidate(Warp& warp, const ir::Inst& inst) {
  for_each_object<mode, space>(warp, inst, AccessKind::store, Use::init, [](int, std::uint64_t host) {
    store_host<std::uint64_t>(host, 0);
    return false;
  });
}

template <Mode mode, Space space, bool drops>
void arrive(Warp& warp, const ir::Inst& inst) {
  const std::uint32_t* const count = inst.b == ir::no_slot ? nullptr : warp.slot(inst.b);
  std::uint64_t* const to = inst.d == ir::no_slot ? nullptr : warp.lanes<std::uint64_t>(inst.d);
  for_each_object<mode, space>(warp, inst, AccessKind::atomic, Use::arrive, [&](int lane, std::uint64_t host) {
    const std::uint64_t before = load_host<std::uint64_t>(host);
    State state = unpack(before);
    const std::uint32_t arrivals = count == nullptr ? 1 : count[lane];
    state.pending -= arrivals;
    state.expected -= drops ? arrivals : 0;
    const bool is_over = complete(state);
    store_host<std::uint64_t>(host, pack(state));
    if (to != nullptr) {
      to[lane] = before;
    }
    return is_over;
  });
}

// parity: of the phase that is asked about; else the state that an arrival returned.
template <Mode mode, Space space, bool parity>
void test_wait(Warp& warp, const ir::Inst& inst) {
  warp.polled = true;
  const auto is_over = [&](int lane, std::uint64_t host) {
    const State state = unpack(load_host<std::uint64_t>(host));
    return parity ? (state.phase & 1) != (warp.slot(inst.b)[lane] & 1)
                  : state.phase != unpack(warp.lanes<std::uint64_t>(inst.b)[lane]).phase;
  };
  const std::uint32_t passed = for_each_object<mode, space>(warp, inst, AccessKind::atomic, Use::wait, is_over);
  std::uint32_t& predicate = warp.predicates[inst.d];
  predicate = (predicate & ~warp.exec) | passed;
}

// The arrival happens when all copies of the lane so far have landed; here they land now. Without .noinc the arrival
// was not counted on, so it changes nothing but the moment.
template <Mode mode, Space space, bool counted>
void arrive_after_copies(Warp& warp, const ir::Inst& inst) {
  land_copies(warp, warp.exec);
  for_each_object<mode, space>(warp, inst, AccessKind::atomic, Use::copies_arrive, [&](int, std::uint64_t host) {
    State state = unpack(load_host<std::uint64_t>(host));
    state.pending -= counted ? 1 : 0;
    const bool is_over = complete(state);
    store_host<std::uint64_t>(host, pack(state));
    return is_over;
  });
}

void pending_count(Warp& warp, const ir::Inst& inst) {
  const std::uint64_t* const from = warp.lanes<std::uint64_t>(inst.a);
  std::uint32_t* const to = warp.slot(inst.d);
  for_each_lane(warp.exec, [&](int lane) { to[lane] = unpack(from[lane]).pending; });
}

template <Mode mode, Space space>
ir::Handler pick(const ir::Form& form) {
  if (form.opcode == "cp") {
    return form.has("noinc") ? &arrive_after_copies<mode, space, true> : &arrive_after_copies<mode, space, false>;
  }
  if (form.has("init")) {
    return &init<mode, space>;
  }
  if (form.has("inval")) {
    return &invalidate<mode, space>;
  }
  if (form.has("arrive")) {
    return form.has("expect_tx") ? nullptr : &arrive<mode, space, false>;
  }
  if (form.has("arrive_drop")) {
    return form.has("expect_tx") ? nullptr : &arrive<mode, space, true>;
  }
  if (form.has("test_wait") || form.has("try_wait")) {
    return form.has("parity") ? &test_wait<mode, space, true> : &test_wait<mode, space, false>;
  }
  return form.has("pending_count") ? &pending_count : nullptr;
}

template <Mode mode>
ir::Handler pick_space(const ir::Form& form) {
  return form.space == Space::shared ? pick<mode, Space::shared>(form) : pick<mode, Space::generic>(form);
}

}  // namespace

ir::Handler mbarrier_handler(const ir::Form& form, Mode mode) {
  const bool arrives_by_copy = form.opcode == "cp" && form.has("mbarrier") && !form.has("bulk");
  if (form.opcode != "mbarrier" && !arrives_by_copy) {
    return nullptr;
  }
  return mode == Mode::fast ? pick_space<Mode::fast>(form) : pick_space<Mode::observed>(form);
}

}  // namespace flashmoe::vgpu::exec
