#include "kernels/cpu/simd/avx512.hpp"

#include "kernels/cpu/attention/entry.hpp"

namespace flashmoe::cpu {

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error "the AVX-512 kernels must be compiled with AVX-512 F, BW, DQ and VL"
#endif
#if defined(__AMX_TILE__)
#error "the AVX-512 kernels must run on machines without AMX"
#endif

constexpr KernelTable avx512_kernels{run_tile<Avx512, FMS_ISA_AVX512>, run_gemv<Avx512, FMS_ISA_AVX512>, nullptr,
                                     merge_states<Avx512>, exp2_of_degree<Avx512>};

}  // namespace flashmoe::cpu
