// The comparisons of setp and set (PTX ISA 9.7.6): lt and the like are false with a NaN, ltu and the like true.
#pragma once

#include "vgpu/exec/ops/floats.hpp"
#include "vgpu/exec/ops/integers.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

enum class Compare { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan, none };

inline Compare compare_of(const Key& key) {
  constexpr struct {
    Modifier modifier;
    Compare compare;
  } names[] = {
      {Modifier::eq, Compare::eq},   {Modifier::ne, Compare::ne},   {Modifier::lt, Compare::lt},
      {Modifier::le, Compare::le},   {Modifier::gt, Compare::gt},   {Modifier::ge, Compare::ge},
      {Modifier::lo, Compare::lt},   {Modifier::ls, Compare::le},   {Modifier::hi, Compare::gt},
      {Modifier::hs, Compare::ge},   {Modifier::equ, Compare::equ}, {Modifier::neu, Compare::neu},
      {Modifier::ltu, Compare::ltu}, {Modifier::leu, Compare::leu}, {Modifier::gtu, Compare::gtu},
      {Modifier::geu, Compare::geu}, {Modifier::num, Compare::num}, {Modifier::nan, Compare::nan},
  };
  for (const auto& name : names) {
    if (key.has(name.modifier)) return name.compare;
  }
  return Compare::none;
}

template <Compare C, class T>
VGPU_INLINE bool holds(T a, T b) {
  switch (C) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a < b || a > b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return !(a < b || a > b);
    case Compare::neu:
      return !(a == b);
    case Compare::ltu:
      return !(a >= b);
    case Compare::leu:
      return !(a > b);
    case Compare::gtu:
      return !(a <= b);
    case Compare::geu:
      return !(a < b);
    case Compare::num:
      return a == a && b == b;
    case Compare::nan:
      return !(a == a && b == b);
    case Compare::none:
      return false;
  }
  return false;
}

// The value that is compared: a half as the float it stands for.
template <bool Ftz, class T>
VGPU_INLINE auto compared(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return flush<Ftz>(x);
  } else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return to_float(x);
  } else {
    return x;
  }
}

template <Compare C, class T, bool Ftz>
std::uint32_t compare_lanes(const Warp& warp, const Inst& inst) {
  const Cell<T>* a = cells<T>(warp, inst.a);
  const Cell<T>* b = cells<T>(warp, inst.b);
  return mask_of(
      [=](int lane) { return holds<C>(compared<Ftz>(from_cell<T>(a[lane])), compared<Ftz>(from_cell<T>(b[lane]))); });
}

// make<C>() for the comparison at hand.
template <class Make>
inline Handler with_compare(Compare compare, bool ordered_only, Make make) {
  switch (compare) {
    case Compare::eq:
      return make.template operator()<Compare::eq>();
    case Compare::ne:
      return make.template operator()<Compare::ne>();
    case Compare::lt:
      return make.template operator()<Compare::lt>();
    case Compare::le:
      return make.template operator()<Compare::le>();
    case Compare::gt:
      return make.template operator()<Compare::gt>();
    case Compare::ge:
      return make.template operator()<Compare::ge>();
    default:
      break;
  }
  if (ordered_only) return nullptr;
  switch (compare) {
    case Compare::equ:
      return make.template operator()<Compare::equ>();
    case Compare::neu:
      return make.template operator()<Compare::neu>();
    case Compare::ltu:
      return make.template operator()<Compare::ltu>();
    case Compare::leu:
      return make.template operator()<Compare::leu>();
    case Compare::gtu:
      return make.template operator()<Compare::gtu>();
    case Compare::geu:
      return make.template operator()<Compare::geu>();
    case Compare::num:
      return make.template operator()<Compare::num>();
    case Compare::nan:
      return make.template operator()<Compare::nan>();
    default:
      return nullptr;
  }
}

// t combined with the predicate c or !c.
enum class Combine { none, and_, or_, xor_ };

inline Combine combine_of(const Key& key) {
  if (key.has(Modifier::and_)) return Combine::and_;
  if (key.has(Modifier::or_)) return Combine::or_;
  if (key.has(Modifier::xor_)) return Combine::xor_;
  return Combine::none;
}

template <Combine B>
VGPU_INLINE std::uint32_t combine(const Warp& warp, const Inst& inst, std::uint32_t t) {
  if constexpr (B == Combine::none) return t;
  const std::uint32_t c = warp.predicates[inst.c] ^ (inst.not_c ? all_lanes : 0u);
  if constexpr (B == Combine::and_) return t & c;
  if constexpr (B == Combine::or_) return t | c;
  return t ^ c;
}

template <class Make>
inline Handler with_combine(Combine combine, Make make) {
  switch (combine) {
    case Combine::and_:
      return make.template operator()<Combine::and_>();
    case Combine::or_:
      return make.template operator()<Combine::or_>();
    case Combine::xor_:
      return make.template operator()<Combine::xor_>();
    case Combine::none:
      return make.template operator()<Combine::none>();
  }
  return nullptr;
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
