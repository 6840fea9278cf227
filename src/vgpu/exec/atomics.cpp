// atom and red (PTX ISA 9.7.13.5, .6). CTAs run on several host threads, so each update is a host atomic: a loop of
// compare-and-swap, one per lane in lane order.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "vgpu/exec/addresses.hpp"
#include "vgpu/exec/host_access.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/memory_parts.hpp"
#define VGPU_VARIANT atomics
#include "vgpu/exec/ops/floats.hpp"

namespace flashmoe::vgpu::exec {

namespace {

using ir::Space;
namespace floats = ops::VGPU_VARIANT;
using floats::BF16;
using floats::F16;

template <int bytes>
using Word =
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>;
template <class T>
using WordOf = Word<sizeof(T)>;
template <class T>
using SlotOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class Half>
struct Pair {
  Half low, high;
};

template <class T>
T sum(T x, T y) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    // Exact enough in f32 that rounding twice is rounding once: 24 >= 2 * 11 + 2 bits.
    return floats::round_to<T>(floats::to_float(x) + floats::to_float(y));
  } else if constexpr (std::is_floating_point_v<T>) {
    return floats::canonical(x + y);
  } else {
    return static_cast<T>(std::make_unsigned_t<T>(x) + std::make_unsigned_t<T>(y));
  }
}
template <class Half>
Pair<Half> sum(Pair<Half> x, Pair<Half> y) {
  return {sum(x.low, y.low), sum(x.high, y.high)};
}

template <bool largest, class T>
T extreme(T x, T y) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return floats::round_to<T>(floats::extreme<largest, false, false>(floats::to_float(x), floats::to_float(y)));
  } else {
    return (largest ? x > y : x < y) ? x : y;
  }
}
template <bool largest, class Half>
Pair<Half> extreme(Pair<Half> x, Pair<Half> y) {
  return {extreme<largest>(x.low, y.low), extreme<largest>(x.high, y.high)};
}

// Each reads like the manual: what the memory holds after, from what it held and the operands.
struct Add {
  template <class T>
  static T apply(T old, T b, T) {
    return sum(old, b);
  }
};
struct Min {
  template <class T>
  static T apply(T old, T b, T) {
    return extreme<false>(old, b);
  }
};
struct Max {
  template <class T>
  static T apply(T old, T b, T) {
    return extreme<true>(old, b);
  }
};
struct And {
  template <class T>
  static T apply(T old, T b, T) {
    return old & b;
  }
};
struct Or {
  template <class T>
  static T apply(T old, T b, T) {
    return old | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T old, T b, T) {
    return old ^ b;
  }
};
struct Inc {
  template <class T>
  static T apply(T old, T b, T) {
    return old >= b ? 0 : old + 1;
  }
};
struct Dec {
  template <class T>
  static T apply(T old, T b, T) {
    return old == 0 || old > b ? b : old - 1;
  }
};
struct Exch {
  template <class T>
  static T apply(T, T b, T) {
    return b;
  }
};
struct Cas {
  template <class T>
  static T apply(T old, T b, T c) {
    return old == b ? c : old;
  }
};

// atom.add.f32 flushes subnormals in global memory and keeps them in shared memory (PTX ISA, atom, semantics).
struct AddFlushed {
  static float apply(float old, float b, float) {
    return floats::flush<true>(floats::canonical(floats::flush<true>(old) + floats::flush<true>(b)));
  }
};

template <class Op, class T>
WordOf<T> update(std::uint64_t host, WordOf<T> b, WordOf<T> c) {
  auto* const place = reinterpret_cast<WordOf<T>*>(host);
  WordOf<T> old = __atomic_load_n(place, __ATOMIC_RELAXED);
  WordOf<T> next;
  do {
    next = std::bit_cast<WordOf<T>>(Op::apply(std::bit_cast<T>(old), std::bit_cast<T>(b), std::bit_cast<T>(c)));
  } while (!__atomic_compare_exchange_n(place, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return old;
}

template <class Op, class T>
WordOf<T> update_here(const Warp& warp, std::uint64_t host, WordOf<T> b, WordOf<T> c) {
  if constexpr (std::is_same_v<Op, Add> && std::is_same_v<T, float>) {
    const bool is_shared = host - reinterpret_cast<std::uint64_t>(warp.shared) < warp.shared_bytes;
    return is_shared ? update<Add, float>(host, b, c) : update<AddFlushed, float>(host, b, c);
  } else {
    return update<Op, T>(host, b, c);
  }
}

// The operand beside the address: how many elements it has, and whether the old ones are wanted (atom, not red).
struct Operand {
  int count;
  bool returns;
};

// Element `e` of the destination and of the source: vectors lie in the list, destination first; red has none.
struct Elements {
  std::uint32_t to, from;
};
[[nodiscard]] Elements elements(const Warp& warp, const ir::Inst& inst, Operand operand, int e) {
  if (inst.list == ir::no_slot) {
    return {inst.d, inst.b};
  }
  const std::uint32_t* const list = warp.kernel->lists.data() + inst.list;
  return operand.returns ? Elements{list[e], list[operand.count + e]} : Elements{ir::no_slot, list[e]};
}

// Apart from what differs by space, mode and operand, so that there is one body for all of those.
template <class Op, class T>
[[gnu::noinline]] void update_lanes(Warp& warp, const ir::Inst& inst, std::uint32_t lanes, const Targets& at,
                                    Operand operand) {
  using Slot = SlotOf<T>;
  for (int e = 0; e < operand.count; ++e) {
    const Elements slots = elements(warp, inst, operand, e);
    const Slot* const b = warp.lanes<Slot>(slots.from);
    const Slot* const c = std::is_same_v<Op, Cas> ? warp.lanes<Slot>(inst.c) : b;
    Slot old[lanes_per_warp] = {};
    for_each_lane(lanes, [&](int lane) {
      old[lane] = update_here<Op, T>(warp, at.host[lane] + e * sizeof(T), static_cast<WordOf<T>>(b[lane]),
                                     static_cast<WordOf<T>>(c[lane]));
    });
    if (operand.returns && slots.to != ir::no_slot) {
      warp.polled = true;
      Slot* const to = warp.lanes<Slot>(slots.to);
      for_each_lane(warp.exec, [&](int lane) { to[lane] = old[lane]; });
    }
  }
}

template <Mode mode, Space space, class Op, class T, int count, bool returns>
void atomic(Warp& warp, const ir::Inst& inst) {
  Targets at;
  const std::uint32_t lanes = resolve<mode, space>(warp, inst, AccessKind::atomic, at);
  if (!warp.leave) {
    update_lanes<Op, T>(warp, inst, lanes, at, {count, returns});
  }
}

template <Mode mode, class Op, class T, int count>
ir::Handler pick_space(const ir::Form& form) {
  const bool returns = form.opcode == "atom";
  switch (form.space) {
    case Space::global:
      return returns ? &atomic<mode, Space::global, Op, T, count, true>
                     : &atomic<mode, Space::global, Op, T, count, false>;
    case Space::shared:
      if constexpr (count == 1) {  // vectors are for global memory only
        return returns ? &atomic<mode, Space::shared, Op, T, count, true>
                       : &atomic<mode, Space::shared, Op, T, count, false>;
      }
      return nullptr;
    case Space::generic:
      return returns ? &atomic<mode, Space::generic, Op, T, count, true>
                     : &atomic<mode, Space::generic, Op, T, count, false>;
    default:
      return nullptr;
  }
}

template <Mode mode, class Op, class T>
ir::Handler pick_count(const ir::Form& form) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, BF16> ||
                std::is_same_v<T, Pair<F16>> || std::is_same_v<T, Pair<BF16>>) {
    switch (form.vector) {
      case 2:
        return pick_space<mode, Op, T, 2>(form);
      case 4:
        return pick_space<mode, Op, T, 4>(form);
      case 8:
        if constexpr (sizeof(T) == 2) {
          return pick_space<mode, Op, T, 8>(form);
        }
        return nullptr;
      default:
        break;
    }
  }
  return form.vector == 1 ? pick_space<mode, Op, T, 1>(form) : nullptr;
}

template <Mode mode, class Op>
ir::Handler pick_bits(const ir::Form& form) {
  switch (ir::bits_of(form.last_type())) {
    case 16:
      return std::is_same_v<Op, Cas> ? pick_count<mode, Op, std::uint16_t>(form) : nullptr;
    case 32:
      return pick_count<mode, Op, std::uint32_t>(form);
    case 64:
      return pick_count<mode, Op, std::uint64_t>(form);
    default:
      return nullptr;
  }
}

template <Mode mode, class Op>
ir::Handler pick_integer(const ir::Form& form) {
  switch (form.last_type()) {
    case ir::Type::u32:
      return pick_count<mode, Op, std::uint32_t>(form);
    case ir::Type::s32:
      return pick_count<mode, Op, std::int32_t>(form);
    case ir::Type::u64:
      return pick_count<mode, Op, std::uint64_t>(form);
    case ir::Type::s64:
      return pick_count<mode, Op, std::int64_t>(form);
    default:
      return nullptr;
  }
}

template <Mode mode, class Op>
ir::Handler pick_number(const ir::Form& form) {
  switch (form.last_type()) {
    case ir::Type::f16:
      return pick_count<mode, Op, F16>(form);
    case ir::Type::bf16:
      return pick_count<mode, Op, BF16>(form);
    case ir::Type::f16x2:
      return pick_count<mode, Op, Pair<F16>>(form);
    case ir::Type::bf16x2:
      return pick_count<mode, Op, Pair<BF16>>(form);
    default:
      return pick_integer<mode, Op>(form);
  }
}

template <Mode mode>
ir::Handler pick_op(const ir::Form& form) {
  if (form.has("add")) {
    if (form.last_type() == ir::Type::f32) {
      return pick_count<mode, Add, float>(form);
    }
    return form.last_type() == ir::Type::f64 ? pick_count<mode, Add, double>(form) : pick_number<mode, Add>(form);
  }
  if (form.has("min")) {
    return pick_number<mode, Min>(form);
  }
  if (form.has("max")) {
    return pick_number<mode, Max>(form);
  }
  if (form.has("and")) {
    return pick_bits<mode, And>(form);
  }
  if (form.has("or")) {
    return pick_bits<mode, Or>(form);
  }
  if (form.has("xor")) {
    return pick_bits<mode, Xor>(form);
  }
  if (form.has("inc")) {
    return pick_count<mode, Inc, std::uint32_t>(form);
  }
  if (form.has("dec")) {
    return pick_count<mode, Dec, std::uint32_t>(form);
  }
  if (form.has("exch")) {
    return pick_bits<mode, Exch>(form);
  }
  return form.has("cas") ? pick_bits<mode, Cas>(form) : nullptr;
}

}  // namespace

ir::Handler atomic_handler(const ir::Form& form, Mode mode) {
  return mode == Mode::fast ? pick_op<Mode::fast>(form) : pick_op<Mode::observed>(form);
}

}  // namespace flashmoe::vgpu::exec
