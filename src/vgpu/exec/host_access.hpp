// Single accesses to memory that other host threads may touch at the same time. Relaxed atomics cost nothing on the
// host, and a kernel's own data race stays the kernel's: no undefined behaviour of this program.
#pragma once

#include <cstdint>
#include <type_traits>

namespace flashmoe::vgpu::exec {

template <class T>
[[nodiscard]] inline T load_host(std::uint64_t address) {
  return __atomic_load_n(reinterpret_cast<const T*>(address), __ATOMIC_RELAXED);
}

template <class T>
inline void store_host(std::uint64_t address, std::type_identity_t<T> value) {
  __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_RELAXED);
}

}  // namespace flashmoe::vgpu::exec
