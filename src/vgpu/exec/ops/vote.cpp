// What the lanes of a warp tell each other without memory (PTX ISA 9.7.13): vote, match, activemask, redux, elect, and
// movmatrix (9.7.14.5.17). Members of a .sync form are the lanes named by the mask that run here: two groups with
// different masks may well arrive at the same instruction together, and each answers for itself.
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/integers.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

template <class T>
void write_group(Warp& warp, std::uint32_t slot, std::uint32_t group, T value) {
  if (slot == ir::no_slot) return;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (bit(group, lane)) cells<T>(warp, slot)[lane] = to_cell<T>(value);
  }
}

void write_group_predicate(Warp& warp, std::uint32_t index, std::uint32_t group, std::uint32_t mask) {
  if (index == ir::no_slot) return;
  warp.predicates[index] = (warp.predicates[index] & ~group) | (mask & group);
}

enum class Vote { all, any, uni, ballot };

template <Vote V>
void vote(Warp& warp, const Inst& inst) {
  const std::uint32_t a = warp.predicates[inst.a] ^ (inst.not_c ? all_lanes : 0u);  // before d, which may be a
  for_each_group(warp, inst, [&](std::uint32_t group, std::uint32_t) {
    const std::uint32_t yes = a & group;
    if constexpr (V == Vote::ballot) {
      write_group<std::uint32_t>(warp, inst.d, group, yes);
    } else {
      const bool answer = V == Vote::all ? yes == group : V == Vote::any ? yes != 0 : yes == 0 || yes == group;
      write_group_predicate(warp, inst.d, group, answer ? all_lanes : 0u);
    }
  });
}

template <class T>
std::uint32_t lanes_with(const Warp& warp, std::uint32_t slot, std::uint32_t group, T value) {
  std::uint32_t same = 0;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (bit(group, lane) && from_cell<T>(cells<T>(warp, slot)[lane]) == value) same |= 1u << lane;
  }
  return same;
}

template <class T>
void match_any(Warp& warp, const Inst& inst) {
  std::uint32_t answers[lanes_per_warp] = {};
  for_each_group(warp, inst, [&](std::uint32_t group, std::uint32_t) {
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      if (bit(group, lane)) {
        answers[lane] = lanes_with<T>(warp, inst.a, group, from_cell<T>(cells<T>(warp, inst.a)[lane]));
      }
    }
  });
  write_lanes<std::uint32_t>(warp, inst.d, [&](int lane) { return answers[lane]; });
}

template <class T>
void match_all(Warp& warp, const Inst& inst) {
  std::uint32_t answers[lanes_per_warp] = {};
  std::uint32_t agreed = 0;
  for_each_group(warp, inst, [&](std::uint32_t group, std::uint32_t) {
    const T first = from_cell<T>(cells<T>(warp, inst.a)[__builtin_ctz(group)]);
    if (lanes_with<T>(warp, inst.a, group, first) != group) return;
    agreed |= group;
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      if (bit(group, lane)) answers[lane] = group;
    }
  });
  if (inst.d != ir::no_slot) write_lanes<std::uint32_t>(warp, inst.d, [&](int lane) { return answers[lane]; });
  write_predicate(warp, inst.e, agreed);
}

void activemask(Warp& warp, const Inst& inst) {
  const std::uint32_t exec = warp.exec;
  write_lanes<std::uint32_t>(warp, inst.d, [=](int) { return exec; });
}

void elect(Warp& warp, const Inst& inst) {
  for_each_group(warp, inst, [&](std::uint32_t group, std::uint32_t) {
    const int leader = __builtin_ctz(group);
    write_group<std::uint32_t>(warp, inst.d, group, static_cast<std::uint32_t>(leader));
    write_group_predicate(warp, inst.e, group, 1u << leader);
  });
}

template <class T, T (*Function)(T, T)>
void redux(Warp& warp, const Inst& inst) {
  for_each_group(warp, inst, [&](std::uint32_t group, std::uint32_t) {
    const Cell<T>* a = cells<T>(warp, inst.a);
    T result = from_cell<T>(a[__builtin_ctz(group)]);
    for (int lane = __builtin_ctz(group) + 1; lane < lanes_per_warp; ++lane) {
      if (bit(group, lane)) result = Function(result, from_cell<T>(a[lane]));
    }
    write_group<T>(warp, inst.d, group, result);
  });
}
template <class T>
T add(T a, T b) {
  return static_cast<T>(as_unsigned(a) + as_unsigned(b));
}
template <class T>
T minimum(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T maximum(T a, T b) {
  return a > b ? a : b;
}
std::uint32_t and_bits(std::uint32_t a, std::uint32_t b) {
  return a & b;
}
std::uint32_t or_bits(std::uint32_t a, std::uint32_t b) {
  return a | b;
}
std::uint32_t xor_bits(std::uint32_t a, std::uint32_t b) {
  return a ^ b;
}

// An 8x8 matrix of halves, lane 4 g + t holding columns 2 t and 2 t + 1 of row g, transposed.
void movmatrix(Warp& warp, const Inst& inst) {
  std::uint16_t matrix[8][8];
  const std::uint32_t* a = warp.slot(inst.a);
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    matrix[lane / 4][2 * (lane % 4)] = static_cast<std::uint16_t>(a[lane]);
    matrix[lane / 4][2 * (lane % 4) + 1] = static_cast<std::uint16_t>(a[lane] >> 16);
  }
  write_lanes<std::uint32_t>(warp, inst.d, [&](int lane) {
    const int t = 2 * (lane % 4), g = lane / 4;
    return matrix[t][g] | static_cast<std::uint32_t>(matrix[t + 1][g]) << 16;
  });
}

template <class T>
Handler find_redux(const Key& key) {
  if (key.has(Modifier::add)) return redux<T, add<T>>;
  if (key.has(Modifier::min)) return redux<T, minimum<T>>;
  return key.has(Modifier::max) ? redux<T, maximum<T>> : nullptr;
}

Handler find_redux_of_bits(const Key& key) {
  if (key.has(Modifier::and_)) return redux<std::uint32_t, and_bits>;
  if (key.has(Modifier::or_)) return redux<std::uint32_t, or_bits>;
  return key.has(Modifier::xor_) ? redux<std::uint32_t, xor_bits> : nullptr;
}

}  // namespace

Handler find_vote(const Key& key) {
  const bool wide = width_of(key.type()) == 64;
  switch (key.op) {
    case Op::vote:
      if (key.has(Modifier::ballot)) return vote<Vote::ballot>;
      if (key.has(Modifier::all)) return vote<Vote::all>;
      if (key.has(Modifier::any)) return vote<Vote::any>;
      return key.has(Modifier::uni) ? vote<Vote::uni> : nullptr;
    case Op::match:
      if (key.has(Modifier::any)) return wide ? match_any<std::uint64_t> : match_any<std::uint32_t>;
      return wide ? match_all<std::uint64_t> : match_all<std::uint32_t>;
    case Op::activemask:
      return activemask;
    case Op::elect:
      return elect;
    case Op::redux:
      if (key.type() == Type::b32) return find_redux_of_bits(key);
      return key.type() == Type::s32 ? find_redux<std::int32_t>(key) : find_redux<std::uint32_t>(key);
    case Op::movmatrix:
      return movmatrix;
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
