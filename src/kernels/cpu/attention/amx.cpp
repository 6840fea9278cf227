#include "kernels/cpu/attention/amx_kernel.hpp"
#include "kernels/cpu/attention/entry.hpp"

namespace flashmoe::cpu {

// gcc says __AMX_TILE__, clang 14 __AMXTILE__.
#if !(defined(__AMX_TILE__) || defined(__AMXTILE__)) || !(defined(__AMX_BF16__) || defined(__AMXBF16__)) || \
    !defined(__AVX512BF16__)
#error "the AMX kernels must be compiled with AMX-TILE, AMX-BF16 and AVX512-BF16"
#endif

namespace {

// fp32 has no AMX kernel: the planner takes the AVX-512 one.
void run_amx(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  const int threads = plan.problem.dtype == FMS_BF16
                          ? run_items<Avx512, Bf16, AmxKernel<Bf16>, TileScope>(plan, args, workspace)
                          : run_items<Avx512, Half, AmxKernel<Half>, TileScope>(plan, args, workspace);
  report(plan, args, FMS_ISA_AMX, FMS_KERNEL_AMX, threads);
}

}  // namespace

// Everything but the tile kernel is the AVX-512 level's: the planner asks for it there.
constexpr KernelTable amx_kernels{nullptr, nullptr, run_amx, nullptr, nullptr};

}  // namespace flashmoe::cpu
