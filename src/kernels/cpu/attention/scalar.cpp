#include "kernels/cpu/simd/scalar.hpp"

#include "kernels/cpu/attention/entry.hpp"

namespace flashmoe::cpu {

#if defined(__AVX2__) || defined(__AVX512F__)
#error "the scalar kernels must be compiled for the baseline machine"
#endif

constexpr KernelTable scalar_kernels{run_tile<Scalar, FMS_ISA_SCALAR>, run_gemv<Scalar, FMS_ISA_SCALAR>, nullptr,
                                     merge_states<Scalar>, exp2_of_degree<Scalar>};

}  // namespace flashmoe::cpu
