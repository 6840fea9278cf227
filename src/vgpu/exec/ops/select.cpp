// set, slct, testp, copysign, and setp on f64 and the halves (PTX ISA 9.7.6, 9.7.7, 9.7.3.1, 9.7.3.2).
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/compare.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

// .ftz on halves flushes what is subnormal in f16.
struct FlushedF16 {
  std::uint16_t bits;
};
float to_float(FlushedF16 x) {
  return to_float(F16{static_cast<std::uint16_t>((x.bits & 0x7c00u) == 0 ? x.bits & 0x8000u : x.bits)});
}

// The lanes for which a comparison holds. There are hundreds of forms of set: their functions only choose among these
// and hand on constants, so that they stay a few bytes each.
using Mask = std::uint32_t (*)(const Warp&, const Inst&);

template <Compare C, class T, bool Ftz>
[[gnu::noinline]] std::uint32_t of_numbers(const Warp& warp, const Inst& inst) {
  return compare_lanes<C, T, Ftz>(warp, inst);
}
template <Compare C, class Half, bool High>
[[gnu::noinline]] std::uint32_t of_halves(const Warp& warp, const Inst& inst) {
  const std::uint32_t* a = warp.slot(inst.a);
  const std::uint32_t* b = warp.slot(inst.b);
  const auto half = [](std::uint32_t pair) {
    return to_float(Half{static_cast<std::uint16_t>(High ? pair >> 16 : pair)});
  };
  return mask_of([=](int lane) { return holds<C>(half(a[lane]), half(b[lane])); });
}

std::uint32_t combined(const Warp& warp, const Inst& inst, Combine how, std::uint32_t t) {
  switch (how) {
    case Combine::and_:
      return combine<Combine::and_>(warp, inst, t);
    case Combine::or_:
      return combine<Combine::or_>(warp, inst, t);
    case Combine::xor_:
      return combine<Combine::xor_>(warp, inst, t);
    case Combine::none:
      break;
  }
  return t;
}

// p and q of one comparison, or of the two halves of a pair.
template <Mask First, Mask Second, Combine B>
void setp(Warp& warp, const Inst& inst) {
  const std::uint32_t first = First(warp, inst);
  const std::uint32_t second = Second != nullptr ? Second(warp, inst) : ~first;
  const std::uint32_t p = combined(warp, inst, B, first), q = combined(warp, inst, B, second);
  write_predicate(warp, inst.d, p);
  write_predicate(warp, inst.e, q);
}

// set writes 1.0 into a float and all ones into an integer.
[[gnu::noinline]] void write_truth(Warp& warp, const Inst& inst, std::uint32_t mask, std::uint32_t value) {
  write_lanes<std::uint32_t>(warp, inst.d, [=](int lane) { return bit(mask, lane) ? value : 0u; });
}
[[gnu::noinline]] void write_truths(Warp& warp, const Inst& inst, std::uint32_t low, std::uint32_t high,
                                    std::uint32_t value) {
  write_lanes<std::uint32_t>(
      warp, inst.d, [=](int lane) { return (bit(low, lane) ? value : 0u) | (bit(high, lane) ? value << 16 : 0u); });
}
template <Mask First, Mask Second, Combine B, std::uint32_t Value>
void set(Warp& warp, const Inst& inst) {
  const std::uint32_t first = combined(warp, inst, B, First(warp, inst));
  if constexpr (Second != nullptr) {
    write_truths(warp, inst, first, combined(warp, inst, B, Second(warp, inst)), Value);
  } else {
    write_truth(warp, inst, first, Value);
  }
}

template <Mask First, Mask Second, Combine B>
Handler set_to(Type result) {
  constexpr bool pair = Second != nullptr;
  switch (result) {
    case Type::u32:
    case Type::s32:
      return set < First, Second, B, pair ? 0xffffu : 0xffffffffu > ;
    case Type::u16:
    case Type::s16:
      return set<First, Second, B, 0xffffu>;
    case Type::f32:
      return set<First, Second, B, 0x3f800000u>;
    case Type::f16:
    case Type::f16x2:
      return set<First, Second, B, 0x3c00u>;
    case Type::bf16:
    case Type::bf16x2:
      return set<First, Second, B, 0x3f80u>;
    default:
      return nullptr;
  }
}

template <Mask First, Mask Second>
Handler set_or_setp(const Key& key) {
  return with_combine(combine_of(key), [&]<Combine B>() -> Handler {
    if (key.op == Op::setp) return setp<First, Second, B>;
    return set_to<First, Second, B>(key.types[0]);
  });
}

template <class T, bool Ftz = false>
Handler with_numbers(const Key& key) {
  return with_compare(compare_of(key), std::is_integral_v<T>,
                      [&]<Compare C>() { return set_or_setp<of_numbers<C, T, Ftz>, nullptr>(key); });
}
template <class Half>
Handler with_half(const Key& key) {
  return with_compare(compare_of(key), false,
                      [&]<Compare C>() { return set_or_setp<of_halves<C, Half, false>, nullptr>(key); });
}
template <class Half>
Handler with_pair(const Key& key) {
  return with_compare(compare_of(key), false, [&]<Compare C>() {
    return set_or_setp<of_halves<C, Half, false>, of_halves<C, Half, true>>(key);
  });
}

Handler find_comparison(const Key& key) {
  const bool ftz = key.has(Modifier::ftz);
  switch (key.type()) {
    case Type::f64:
      return with_numbers<double>(key);
    case Type::f16:
      return ftz ? with_half<FlushedF16>(key) : with_half<F16>(key);
    case Type::f16x2:
      return ftz ? with_pair<FlushedF16>(key) : with_pair<F16>(key);
    case Type::bf16:
      return with_half<BF16>(key);
    case Type::bf16x2:
      return with_pair<BF16>(key);
    default:
      break;
  }
  if (key.op == Op::setp) return nullptr;  // the variants have the rest
  switch (key.type()) {
    case Type::s16:
      return with_numbers<std::int16_t>(key);
    case Type::b16:
    case Type::u16:
      return with_numbers<std::uint16_t>(key);
    case Type::s32:
      return with_numbers<std::int32_t>(key);
    case Type::b32:
    case Type::u32:
      return with_numbers<std::uint32_t>(key);
    case Type::s64:
      return with_numbers<std::int64_t>(key);
    case Type::b64:
    case Type::u64:
      return with_numbers<std::uint64_t>(key);
    case Type::f32:
      return ftz ? with_numbers<float, true>(key) : with_numbers<float>(key);
    default:
      return nullptr;
  }
}

// slct: a when c >= 0, else b; -0 counts as 0, NaN as negative (9.7.6.4).
template <class T>
T slct_s32(T a, T b, std::int32_t c) {
  return c >= 0 ? a : b;
}
template <class T, bool Ftz>
T slct_f32(T a, T b, float c) {
  return flush<Ftz>(c) >= 0 ? a : b;
}
template <class T>
Handler find_slct(const Key& key) {
  if (key.type() == Type::s32) return lanewise<slct_s32<T>>;
  if (key.type() != Type::f32) return nullptr;
  return key.has(Modifier::ftz) ? lanewise<slct_f32<T, true>> : lanewise<slct_f32<T, false>>;
}

enum class Property { finite, infinite, number, notanumber, normal, subnormal };

template <Property P, class T>
bool has_property(T x) {
  constexpr bool is_double = sizeof(T) == 8;
  const std::uint64_t magnitude = bits_of(x) & (is_double ? 0x7fffffffffffffffu : 0x7fffffffu);
  const std::uint64_t infinity = is_double ? 0x7ff0000000000000u : 0x7f800000u;
  const std::uint64_t smallest_normal = is_double ? 0x0010000000000000u : 0x00800000u;
  switch (P) {
    case Property::finite:
      return magnitude < infinity;
    case Property::infinite:
      return magnitude == infinity;
    case Property::number:
      return magnitude <= infinity;
    case Property::notanumber:
      return magnitude > infinity;
    case Property::normal:
      // "As a special case, positive and negative zero are considered normal numbers."
      return magnitude == 0 || (magnitude >= smallest_normal && magnitude < infinity);
    case Property::subnormal:
      return magnitude > 0 && magnitude < smallest_normal;
  }
  return false;
}
template <Property P, class T>
void testp(Warp& warp, const Inst& inst) {
  const Cell<T>* a = cells<T>(warp, inst.a);
  write_predicate(warp, inst.d, mask_of([=](int lane) { return has_property<P, T>(from_cell<T>(a[lane])); }));
}
template <class T>
Handler find_testp(const Key& key) {
  if (key.has(Modifier::finite)) return testp<Property::finite, T>;
  if (key.has(Modifier::infinite)) return testp<Property::infinite, T>;
  if (key.has(Modifier::number)) return testp<Property::number, T>;
  if (key.has(Modifier::notanumber)) return testp<Property::notanumber, T>;
  if (key.has(Modifier::normal)) return testp<Property::normal, T>;
  return key.has(Modifier::subnormal) ? testp<Property::subnormal, T> : nullptr;
}

// The sign of a on the value of b (9.7.3.2).
template <class U>
U copysign(U a, U b) {
  constexpr U sign = U{1} << (width<U> - 1);
  return (a & sign) | (b & ~sign);
}

}  // namespace

Handler find_select(const Key& key) {
  const bool is_double = key.type() == Type::f64;
  switch (key.op) {
    case Op::setp:
      return find_comparison(key);
    case Op::set:
      return key.type_count == 2 ? find_comparison(key) : nullptr;
    case Op::slct:
      if (width_of(key.types[0]) == 64 || key.types[0] == Type::f64) return find_slct<std::uint64_t>(key);
      return find_slct<std::uint32_t>(key);
    case Op::testp:
      return is_double ? find_testp<double>(key) : find_testp<float>(key);
    case Op::copysign:
      return is_double ? lanewise<copysign<std::uint64_t>> : lanewise<copysign<std::uint32_t>>;
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
