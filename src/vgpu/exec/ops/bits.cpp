// Single bits, bit fields and bytes (PTX ISA 9.7.1.14 to 9.7.1.22, 9.7.9.7), and lop3 that also writes a predicate.
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/integers.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

std::uint32_t popc32(std::uint32_t a) {
  return static_cast<std::uint32_t>(__builtin_popcount(a));
}
std::uint32_t popc64(std::uint64_t a) {
  return static_cast<std::uint32_t>(__builtin_popcountll(a));
}
std::uint32_t clz32(std::uint32_t a) {
  return a == 0 ? 32u : static_cast<std::uint32_t>(__builtin_clz(a));
}
std::uint32_t clz64(std::uint64_t a) {
  return a == 0 ? 64u : static_cast<std::uint32_t>(__builtin_clzll(a));
}

std::uint64_t brev64(std::uint64_t a) {
  a = (a >> 1 & 0x5555555555555555u) | (a & 0x5555555555555555u) << 1;
  a = (a >> 2 & 0x3333333333333333u) | (a & 0x3333333333333333u) << 2;
  a = (a >> 4 & 0x0f0f0f0f0f0f0f0fu) | (a & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(a);
}
std::uint32_t brev32(std::uint32_t a) {
  return static_cast<std::uint32_t>(brev64(a) >> 32);
}

// The highest bit that differs from the sign (unsigned: the highest one); all ones when there is none.
template <class T, bool ShiftAmount>
std::uint32_t bfind(T a) {
  const auto bits = static_cast<Unsigned<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
  if (bits == 0) return 0xffffffffu;
  const std::uint32_t zeros = sizeof(T) == 8 ? clz64(bits) : clz32(static_cast<std::uint32_t>(bits));
  return ShiftAmount ? zeros : width<T> - 1 - zeros;
}

// bfe: `length` bits from `position` on, both modulo 256. Above the field, and above the source, the sign fills
// (9.7.1.19).
template <class T>
T bfe(T a, std::uint32_t b, std::uint32_t c) {
  using U = Unsigned<T>;
  const std::uint32_t position = b & 255u, length = c & 255u;
  constexpr std::uint32_t top = width<T> - 1;
  const std::uint32_t last = position + length - 1 < top ? position + length - 1 : top;  // of the field, in a
  const std::uint32_t held = position <= top ? last - position + 1 : 0u;                 // bits of the field that a has
  const U ones = static_cast<U>(~U{0});
  const U mask = held > top ? ones : static_cast<U>((U{1} << (held & top)) - 1);
  const U low = position <= top ? static_cast<U>(static_cast<U>(a) >> (position & top)) : U{0};
  const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> (last & top) & 1u) != 0;
  const U result = static_cast<U>((low & mask) | (sign ? static_cast<U>(~mask) : U{0}));
  return static_cast<T>(length == 0 ? U{0} : result);
}

// Position of the n-th one from bit b on, upwards for n > 0, downwards for n < 0; n = 0 asks whether b is one
// (9.7.1.17).
std::uint32_t fns(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  if (base > 31) return 0xffffffffu;
  if (offset == 0) return (mask >> base & 1u) != 0 ? base : 0xffffffffu;
  const int step = offset > 0 ? 1 : -1;
  std::int64_t left = offset > 0 ? std::int64_t{offset} : -std::int64_t{offset};
  for (int position = static_cast<int>(base); position >= 0 && position < 32; position += step) {
    if ((mask >> position & 1u) != 0 && --left == 0) return static_cast<std::uint32_t>(position);
  }
  return 0xffffffffu;
}

// szext: a as a number of b bits, sign- or zero-extended; .wrap takes b modulo 32, .clamp at most 32 (9.7.1.21).
template <class T, bool Wrap>
T szext(T a, std::uint32_t b) {
  const std::uint32_t bits = Wrap ? b & 31u : b > 32u ? 32u : b;
  if (bits == 0) return 0;
  const std::uint32_t up = 32u - bits;
  const auto shifted = static_cast<T>(static_cast<std::uint32_t>(a) << up);
  return static_cast<T>(shifted >> up);
}

// bmsk: b ones from bit a on (9.7.1.22).
template <bool Wrap>
std::uint32_t bmsk(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t position = Wrap ? a & 31u : a > 32u ? 32u : a;
  const std::uint32_t length = Wrap ? b & 31u : b > 32u ? 32u : b;
  const std::uint64_t ones = (std::uint64_t{1} << length) - 1;
  return static_cast<std::uint32_t>(ones << position);
}

// prmt with a mode: the two low bits of c say where to begin (9.7.9.7).
enum class Permute { f4e, b4e, rc8, ecl, ecr, rc16 };

template <Permute P>
std::uint32_t selector_of(std::uint32_t c, std::uint32_t i) {
  const std::uint32_t n = c & 3u;
  switch (P) {
    case Permute::f4e:  // four bytes from n on
      return (n + i) & 7u;
    case Permute::b4e:  // and backwards
      return (n - i) & 7u;
    case Permute::rc8:
      return n;
    case Permute::ecl:  // clamped from the left: at least n
      return i < n ? n : i;
    case Permute::ecr:
      return i < n ? i : n;
    case Permute::rc16:
      return (n & 1u) * 2 + (i & 1u);
  }
  return 0;
}
template <Permute P>
std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(both >> (8 * selector_of<P>(c, i)) & 0xffu) << (8 * i);
  return result;
}

// lop3.BoolOp d|p: p is (d != 0) op q; q in m.
template <class Combine>
void lop3_predicate(Warp& warp, const Inst& inst) {
  const std::uint32_t q = warp.predicates[inst.m];
  std::uint32_t nonzero = 0;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    const std::uint32_t a = warp.slot(inst.a)[lane], b = warp.slot(inst.b)[lane], c = warp.slot(inst.c)[lane];
    std::uint32_t result = 0;
    for (int row = 0; row < 8; ++row) {
      if ((inst.imm >> row & 1) == 0) continue;
      result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
    }
    if (inst.d != ir::no_slot) warp.slot(inst.d)[lane] = result;
    nonzero |= (result != 0 ? 1u : 0u) << lane;
  }
  write_predicate(warp, inst.e, Combine::of(nonzero, q));
}
struct And {
  static std::uint32_t of(std::uint32_t p, std::uint32_t q) { return p & q; }
};
struct Or {
  static std::uint32_t of(std::uint32_t p, std::uint32_t q) { return p | q; }
};
struct Xor {
  static std::uint32_t of(std::uint32_t p, std::uint32_t q) { return p ^ q; }
};

template <class T>
Handler find_of(const Key& key) {
  if (key.op == Op::bfind) return key.has(Modifier::shiftamt) ? lanewise<bfind<T, true>> : lanewise<bfind<T, false>>;
  if (key.op == Op::bfe) return lanewise<bfe<T>>;
  if constexpr (sizeof(T) == 4) {
    if (key.op == Op::szext) return key.has(Modifier::wrap) ? lanewise<szext<T, true>> : lanewise<szext<T, false>>;
  }
  return nullptr;
}

Handler find_prmt(const Key& key) {
  if (key.has(Modifier::f4e)) return lanewise<prmt<Permute::f4e>>;
  if (key.has(Modifier::b4e)) return lanewise<prmt<Permute::b4e>>;
  if (key.has(Modifier::rc8)) return lanewise<prmt<Permute::rc8>>;
  if (key.has(Modifier::ecl)) return lanewise<prmt<Permute::ecl>>;
  if (key.has(Modifier::ecr)) return lanewise<prmt<Permute::ecr>>;
  return key.has(Modifier::rc16) ? lanewise<prmt<Permute::rc16>> : nullptr;
}

Handler find_lop3(const Key& key) {
  if (key.has(Modifier::and_)) return lop3_predicate<And>;
  if (key.has(Modifier::or_)) return lop3_predicate<Or>;
  return key.has(Modifier::xor_) ? lop3_predicate<Xor> : nullptr;
}

}  // namespace

Handler find_bits(const Key& key) {
  const bool wide = width_of(key.type()) == 64;
  switch (key.op) {
    case Op::popc:
      return wide ? lanewise<popc64> : lanewise<popc32>;
    case Op::clz:
      return wide ? lanewise<clz64> : lanewise<clz32>;
    case Op::brev:
      return wide ? lanewise<brev64> : lanewise<brev32>;
    case Op::fns:
      return lanewise<fns>;
    case Op::bmsk:
      return key.has(Modifier::wrap) ? lanewise<bmsk<true>> : lanewise<bmsk<false>>;
    case Op::prmt:
      return find_prmt(key);
    case Op::lop3:
      return find_lop3(key);
    case Op::bfind:
    case Op::bfe:
    case Op::szext:
      break;
    default:
      return nullptr;
  }
  switch (key.type()) {
    case Type::u32:
      return find_of<std::uint32_t>(key);
    case Type::s32:
      return find_of<std::int32_t>(key);
    case Type::u64:
      return find_of<std::uint64_t>(key);
    case Type::s64:
      return find_of<std::int64_t>(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
