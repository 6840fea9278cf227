// cvt between integers where it is more than cutting or extending a register of the type's own width: .sat, registers
// wider than their type, and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22).
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/integer_registers.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

[[gnu::noinline]] void convert(Warp& warp, const Inst& inst, IntegerRegister from, IntegerRegister to, bool sat) {
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    const Int128 value = read_integer(warp, inst.a, lane, from);
    write_integer(warp, inst.d, lane, to, sat ? clamped(value, to) : value);
  }
}

template <IntegerRegister From, IntegerRegister To, bool Sat>
void cvt(Warp& warp, const Inst& inst) {
  convert(warp, inst, From, To, Sat);
}

// cvt.pack.sat.<8 or 16 bits>.s32 {.b32}: a above b, both clamped; with c the rest of c moves up (9.7.9.22).
template <int Width, bool Signed, bool WithC>
void pack(Warp& warp, const Inst& inst) {
  const std::uint32_t* a = warp.slot(inst.a);
  const std::uint32_t* b = warp.slot(inst.b);
  const std::uint32_t* c = WithC ? warp.slot(inst.c) : nullptr;
  constexpr std::uint32_t mask = (1u << Width) - 1;
  write_lanes<std::uint32_t>(warp, inst.d, [=](int lane) {
    const auto narrow = [](std::uint32_t word) {
      return static_cast<std::uint32_t>(clamped(static_cast<std::int32_t>(word), IntegerRegister{Width, Signed, 32})) &
             mask;
    };
    const std::uint32_t pair = narrow(a[lane]) << Width | narrow(b[lane]);
    if constexpr (WithC) return c[lane] << (2 * Width) | pair;
    return pair;
  });
}

Handler find_pack(const Key& key) {
  const bool with_c = key.type_count == 3;
  switch (key.types[0]) {
    case Type::s16:
      return pack<16, true, false>;
    case Type::u16:
      return pack<16, false, false>;
    case Type::s8:
      return with_c ? pack<8, true, true> : pack<8, true, false>;
    case Type::u8:
      return with_c ? pack<8, false, true> : pack<8, false, false>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler find_integer_convert(const Key& key) {
  if (key.op != Op::cvt) return nullptr;
  if (key.has(Modifier::pack)) return find_pack(key);
  if (key.type_count != 2 || width_of(key.types[0]) == 0 || width_of(key.types[1]) == 0) return nullptr;
  const IntegerRegister from = source_register(key), to = destination_register(key);
  return with_register(from, [&]<IntegerRegister From>() {
    return with_register(to, [&]<IntegerRegister To>() -> Handler {
      return key.has(Modifier::sat) ? cvt<From, To, true> : cvt<From, To, false>;
    });
  });
}

}  // namespace flashmoe::vgpu::exec::ops::common
