// ld and st (PTX ISA 9.7.9.8 to 9.7.9.11): lanes to and from every state space.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "vgpu/exec/addresses.hpp"
#include "vgpu/exec/host_access.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/memory_parts.hpp"

namespace flashmoe::vgpu::exec {

namespace {

using ir::Space;

// A register of 16 bits lies zero-extended in a 32-bit slot.
template <class Value>
using Slot = std::conditional_t<sizeof(Value) == 8, std::uint64_t, std::uint32_t>;

// Element `index` of the operand that is a vector, or the only one.
[[nodiscard]] inline std::uint32_t element(const Warp& warp, const ir::Inst& inst, std::uint32_t single, int index) {
  return inst.list == ir::no_slot ? single : warp.kernel->lists[inst.list + static_cast<std::uint32_t>(index)];
}

// Memory elements of type T into registers of unsigned type Value, widened by T's sign.
template <class T, class Value>
inline Slot<Value> widened(std::uint64_t host) {
  using Bits = std::make_unsigned_t<T>;
  return static_cast<Value>(static_cast<T>(load_host<Bits>(host)));
}

// Apart from what differs by space and mode, so that there is one body for all of those.
template <class T, class Value, int count>
[[gnu::noinline]] void move_in(const Warp& warp, const ir::Inst& inst, std::uint32_t lanes, const Targets& from) {
  for (int e = 0; e < count; ++e) {
    const std::uint32_t slot = element(warp, inst, inst.d, e);
    if (slot == ir::no_slot) {
      continue;
    }
    auto* const to = warp.lanes<Slot<Value>>(slot);
    for_each_lane(lanes, [&](int lane) { to[lane] = widened<T, Value>(from.host[lane] + e * sizeof(T)); });
  }
}

template <Mode mode, Space space, class T, class Value, int count, bool polls>
void load(Warp& warp, const ir::Inst& inst) {
  if constexpr (polls) {
    warp.polled = true;
  }
  Targets from;
  const std::uint32_t lanes = resolve<mode, space>(warp, inst, AccessKind::load, from);
  move_in<T, Value, count>(warp, inst, lanes, from);
}

template <class T, class Register, int count>
[[gnu::noinline]] void move_out(const Warp& warp, const ir::Inst& inst, std::uint32_t lanes, const Targets& to) {
  for (int e = 0; e < count; ++e) {
    const Register* const from = warp.lanes<Register>(element(warp, inst, inst.b, e));
    for_each_lane(lanes, [&](int lane) { store_host<T>(to.host[lane] + e * sizeof(T), static_cast<T>(from[lane])); });
  }
}

template <Mode mode, Space space, class T, class Register, int count>
void store(Warp& warp, const ir::Inst& inst) {
  Targets to;
  const std::uint32_t lanes = resolve<mode, space>(warp, inst, AccessKind::store, to);
  move_out<T, Register, count>(warp, inst, lanes, to);
}

template <class T>
struct Named {
  using type = T;
};

template <class Pick>
ir::Handler with_space(Space space, Pick&& pick) {
  switch (space) {
    case Space::generic:
      return pick.template operator()<Space::generic>();
    case Space::global:
      return pick.template operator()<Space::global>();
    case Space::shared:
      return pick.template operator()<Space::shared>();
    case Space::local:
      return pick.template operator()<Space::local>();
    case Space::param:
      return pick.template operator()<Space::param>();
    case Space::constant:
      return pick.template operator()<Space::constant>();
  }
  return nullptr;
}

// A vector has at most 32 bytes, and eight elements are of 32 bits (PTX ISA 9.7.9.8).
template <std::size_t element_bytes, class Pick>
ir::Handler with_count(int count, Pick&& pick) {
  switch (count) {
    case 1:
      return pick.template operator()<1>();
    case 2:
      return pick.template operator()<2>();
    case 4:
      return pick.template operator()<4>();
    case 8:
      if constexpr (element_bytes == 4) {
        return pick.template operator()<8>();
      }
      return nullptr;
    default:
      return nullptr;
  }
}

// The memory type as an integer of its size; signed only where widening must copy the sign.
template <class Pick>
ir::Handler with_memory_type(ir::Type type, int register_bits, Pick&& pick) {
  const int bits = ir::bits_of(type);
  if (ir::is_signed(type) && register_bits > bits) {
    switch (bits) {
      case 8:
        return pick(Named<std::int8_t>{});
      case 16:
        return pick(Named<std::int16_t>{});
      case 32:
        return pick(Named<std::int32_t>{});
      default:
        return nullptr;
    }
  }
  switch (bits) {
    case 8:
      return pick(Named<std::uint8_t>{});
    case 16:
      return pick(Named<std::uint16_t>{});
    case 32:
      return pick(Named<std::uint32_t>{});
    case 64:
      return pick(Named<std::uint64_t>{});
    default:
      return nullptr;
  }
}

template <Mode mode, class T, class Value>
ir::Handler pick_load(const ir::Form& form, bool polls) {
  if constexpr (sizeof(Value) < sizeof(T)) {
    return nullptr;
  } else {
    return with_space(form.space, [&]<Space space>() {
      return with_count<sizeof(T)>(form.vector, [&]<int count>() -> ir::Handler {
        constexpr bool can_poll = space == Space::global || space == Space::shared || space == Space::generic;
        if constexpr (can_poll && count == 1) {
          return polls ? &load<mode, space, T, Value, count, true> : &load<mode, space, T, Value, count, false>;
        } else {
          return &load<mode, space, T, Value, count, false>;
        }
      });
    });
  }
}

template <Mode mode>
ir::Handler pick_load(const ir::Form& form) {
  const int bits = ir::bits_of(form.last_type());
  const int register_bits = form.destination_bits != 0 ? form.destination_bits : std::max(bits, 16);
  const bool polls = form.has("volatile") || form.has("relaxed") || form.has("acquire");
  return with_memory_type(form.last_type(), register_bits, [&]<class T>(Named<T>) -> ir::Handler {
    switch (register_bits) {
      case 16:
        return pick_load<mode, T, std::uint16_t>(form, polls);
      case 32:
        return pick_load<mode, T, std::uint32_t>(form, polls);
      case 64:
        return pick_load<mode, T, std::uint64_t>(form, polls);
      default:
        return nullptr;
    }
  });
}

template <Mode mode>
ir::Handler pick_store(const ir::Form& form) {
  const int bits = ir::bits_of(form.last_type());
  const bool wide = form.source_bits != 0 ? form.source_bits == 64 : bits == 64;
  return with_memory_type(form.last_type(), bits, [&]<class T>(Named<T>) {
    return with_space(form.space, [&]<Space space>() {
      return with_count<sizeof(T)>(form.vector, [&]<int count>() -> ir::Handler {
        if (wide) {
          return &store<mode, space, T, std::uint64_t, count>;
        }
        if constexpr (sizeof(T) <= 4) {
          return &store<mode, space, T, std::uint32_t, count>;
        } else {
          return nullptr;
        }
      });
    });
  });
}

}  // namespace

ir::Handler load_handler(const ir::Form& form, Mode mode) {
  return mode == Mode::fast ? pick_load<Mode::fast>(form) : pick_load<Mode::observed>(form);
}

ir::Handler store_handler(const ir::Form& form, Mode mode) {
  return mode == Mode::fast ? pick_store<Mode::fast>(form) : pick_store<Mode::observed>(form);
}

}  // namespace flashmoe::vgpu::exec
