#include "kernels/cpu/registry.hpp"

#include <cstdlib>

namespace flashmoe::cpu {

const KernelTable& kernels(fms_cpu_isa isa) {
  switch (isa) {
    case FMS_ISA_SCALAR:
      return scalar_kernels;
    case FMS_ISA_AVX2:
      return avx2_kernels;
    case FMS_ISA_AVX512:
      return avx512_kernels;
    case FMS_ISA_AMX:
      return amx_kernels;
    case FMS_ISA_AUTO:
      break;
  }
  std::abort();  // a context never holds AUTO
}

}  // namespace flashmoe::cpu
