// f32 arithmetic rounded to nearest even (PTX ISA 9.7.3); other roundings are in directed.cpp.
#include "vgpu/exec/ops/float32.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <bool Max, bool Ftz, bool Nan, bool XorSign>
float pick(float a, float b) {
  return extreme<Max, Nan, XorSign>(flush<Ftz>(a), flush<Ftz>(b));
}

template <bool Ftz>
float absolute(float a) {
  return canonical(float_of(bits_of(flush<Ftz>(a)) & ~sign_f32));
}
template <bool Ftz>
float negate(float a) {
  return canonical(float_of(bits_of(flush<Ftz>(a)) ^ sign_f32));
}

template <bool Ftz, bool Sat>
Handler arithmetic(const Key& key) {
  const bool nearest = key.rounding == Rounding::none || key.rounding == Rounding::rn;
  if (!nearest) return nullptr;
  switch (key.op) {
    case Op::add:
      return lanewise<add<Ftz, Sat>>;
    case Op::sub:
      return lanewise<sub<Ftz, Sat>>;
    case Op::mul:
      return lanewise<mul<Ftz, Sat>>;
    case Op::mad:
    case Op::fma:
      return lanewise<fma<Ftz, Sat>>;
    default:
      return nullptr;
  }
}

template <bool Max, bool Ftz>
Handler extremes(const Key& key) {
  if (key.has(Modifier::NaN)) {
    return key.has(Modifier::xorsign) ? lanewise<pick<Max, Ftz, true, true>> : lanewise<pick<Max, Ftz, true, false>>;
  }
  return key.has(Modifier::xorsign) ? lanewise<pick<Max, Ftz, false, true>> : lanewise<pick<Max, Ftz, false, false>>;
}

template <bool Ftz>
Handler flushed(const Key& key) {
  switch (key.op) {
    case Op::min:
      return extremes<false, Ftz>(key);
    case Op::max:
      return extremes<true, Ftz>(key);
    case Op::abs_:
      return lanewise<absolute<Ftz>>;
    case Op::neg:
      return lanewise<negate<Ftz>>;
    default:
      return key.has(Modifier::sat) ? arithmetic<Ftz, true>(key) : arithmetic<Ftz, false>(key);
  }
}

}  // namespace

Handler find_float32(const Key& key) {
  if (key.type() != Type::f32 || key.type_count != 1) return nullptr;
  return key.has(Modifier::ftz) ? flushed<true>(key) : flushed<false>(key);
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
