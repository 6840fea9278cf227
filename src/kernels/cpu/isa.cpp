#include "kernels/cpu/isa.hpp"

#include <cstring>

#include "plan/words.hpp"

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace flashmoe::cpu {
namespace {

#if defined(__linux__) && defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// clang 14's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

// Linux hands out the 8 KiB tile state on request only, per process; asking again is harmless.
bool tile_state_granted() {
  constexpr long arch_req_xcomp_perm = 0x1023;
  constexpr long xfeature_xtiledata = 18;
  return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
}

bool has_amx() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned amx_bf16 = 1U << 22;  // CPUID.(7,0):EDX
  constexpr unsigned amx_tile = 1U << 24;
  if ((edx & amx_bf16) == 0 || (edx & amx_tile) == 0) return false;
  if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned avx512_bf16 = 1U << 5;  // CPUID.(7,1):EAX
  return (eax & avx512_bf16) != 0 && tile_state_granted();
}
#endif

}  // namespace

fms_cpu_isa best_isa() {
#if defined(__linux__) && defined(__x86_64__)
  if (has_avx512()) return has_amx() ? FMS_ISA_AMX : FMS_ISA_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) return FMS_ISA_AVX2;
#endif
  return FMS_ISA_SCALAR;
}

const char* isa_name(fms_cpu_isa isa) {
  return isa >= FMS_ISA_AUTO && isa <= FMS_ISA_AMX ? plan::cpu_isa_names[isa] : "unknown";
}

fms_cpu_isa isa_from_name(const char* name) {
  for (int i = FMS_ISA_SCALAR; i <= FMS_ISA_AMX; ++i) {
    if (std::strcmp(name, plan::cpu_isa_names[i]) == 0) return static_cast<fms_cpu_isa>(i);
  }
  return FMS_ISA_AUTO;
}

}  // namespace flashmoe::cpu
