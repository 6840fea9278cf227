// Integer division (PTX ISA 9.7.1.8, 9.7.1.9). By zero the manual leaves the result open and devices answer all ones
// (the remainder is the dividend); the smallest number divided by -1 is itself. Neither may trap the host.
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/integers.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T(0));
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - as_unsigned(a));
  }
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

template <class T>
Handler of_type(const Key& key) {
  return key.op == Op::div ? lanewise<quotient<T>> : lanewise<remainder<T>>;
}

}  // namespace

Handler find_division(const Key& key) {
  if (key.op != Op::div && key.op != Op::rem) return nullptr;
  switch (key.type()) {
    case Type::u16:
      return of_type<std::uint16_t>(key);
    case Type::s16:
      return of_type<std::int16_t>(key);
    case Type::u32:
      return of_type<std::uint32_t>(key);
    case Type::s32:
      return of_type<std::int32_t>(key);
    case Type::u64:
      return of_type<std::uint64_t>(key);
    case Type::s64:
      return of_type<std::int64_t>(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
