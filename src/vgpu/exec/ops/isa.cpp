#include "vgpu/exec/ops/isa.hpp"

#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace flashmoe::vgpu::exec::ops {
namespace {

#if defined(__x86_64__)
bool has_f16c() {  // clang 14's __builtin_cpu_supports does not know it
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "";
}

bool host_has(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (isa == Isa::avx2) return avx2;
  if (isa == Isa::avx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == Isa::baseline;
}

Isa chosen_isa() {
  const char* asked = std::getenv("VGPU_ISA");  // NOLINT(concurrency-mt-unsafe): nobody here sets it
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::baseline}) {
    if (asked != nullptr && *asked != '\0' && name_of(isa) != asked) continue;
    if (host_has(isa)) return isa;
  }
  return Isa::baseline;
}

}  // namespace flashmoe::vgpu::exec::ops
