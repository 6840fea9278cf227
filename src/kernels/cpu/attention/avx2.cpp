#include "kernels/cpu/simd/avx2.hpp"

#include "kernels/cpu/attention/entry.hpp"

namespace flashmoe::cpu {

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "the AVX2 kernels must be compiled with AVX2, FMA and F16C"
#endif
#if defined(__AVX512F__)
#error "the AVX2 kernels must run on machines without AVX-512"
#endif

constexpr KernelTable avx2_kernels{run_tile<Avx2, FMS_ISA_AVX2>, run_gemv<Avx2, FMS_ISA_AVX2>, nullptr,
                                   merge_states<Avx2>, exp2_of_degree<Avx2>};

}  // namespace flashmoe::cpu
