// setp on numbers of 16, 32 and 64 bits (PTX ISA 9.7.6.2): p = (a ? b) op c, q = !(a ? b) op c.
#include "vgpu/exec/ops/compare.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <Compare C, class T, bool Ftz, Combine B>
void setp(Warp& warp, const Inst& inst) {
  const std::uint32_t t = compare_lanes<C, T, Ftz>(warp, inst);
  const std::uint32_t p = combine<B>(warp, inst, t), q = combine<B>(warp, inst, ~t);  // before either is written
  write_predicate(warp, inst.d, p);
  write_predicate(warp, inst.e, q);
}

template <class T, bool Ftz = false>
Handler of_type(const Key& key) {
  return with_compare(compare_of(key), std::is_integral_v<T>, [&]<Compare C>() {
    return with_combine(combine_of(key), []<Combine B>() { return static_cast<Handler>(setp<C, T, Ftz, B>); });
  });
}

}  // namespace

Handler find_compare(const Key& key) {
  if (key.op != Op::setp) return nullptr;
  switch (key.type()) {
    case Type::s16:
      return of_type<std::int16_t>(key);
    case Type::b16:
    case Type::u16:
      return of_type<std::uint16_t>(key);
    case Type::s32:
      return of_type<std::int32_t>(key);
    case Type::b32:
    case Type::u32:
      return of_type<std::uint32_t>(key);
    case Type::s64:
      return of_type<std::int64_t>(key);
    case Type::b64:
    case Type::u64:
      return of_type<std::uint64_t>(key);
    case Type::f32:
      return key.has(Modifier::ftz) ? of_type<float, true>(key) : of_type<float>(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
