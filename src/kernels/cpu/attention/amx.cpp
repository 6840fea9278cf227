#include "kernels/cpu/attention/amx_few_rows.hpp"
#include "kernels/cpu/attention/amx_kernel.hpp"
#include "kernels/cpu/attention/entry.hpp"

namespace flashmoe::cpu {

// gcc says __AMX_TILE__, clang 14 __AMXTILE__.
#if !(defined(__AMX_TILE__) || defined(__AMXTILE__)) || !(defined(__AMX_BF16__) || defined(__AMXBF16__)) || \
    !defined(__AVX512BF16__)
#error "the AMX kernels must be compiled with AMX-TILE, AMX-BF16 and AVX512-BF16"
#endif

namespace {

// Each sequence of a ragged batch takes the path that fits it: decodes beside a prefill are decoded.
template <class T>
class AmxMixedKernel {
 public:
  AmxMixedKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : has_few_rows_(plan::has_few_rows_beside(plan)),
        few_rows_layout_(plan::few_rows_layout(plan, layout)),
        many_rows_(plan, layout, workspace, thread),
        few_rows_(plan, few_rows_layout_, workspace, thread) {}

  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    if (has_few_rows_ && h.rows() <= plan::amx_few_rows) {
      are_tiles_whole_ = false;
      return few_rows_.run_item(h, first_row, last_row, split);
    }
    finish();
    many_rows_.run_item(h, first_row, last_row, split);
  }
  void finish() {
    if (are_tiles_whole_) return;
    few_rows_.forget_tiles();
    load_tile_config(TileConfig{});
    are_tiles_whole_ = true;
  }

 private:
  bool has_few_rows_, are_tiles_whole_ = true;
  plan::CpuLayout few_rows_layout_;
  AmxKernel<T> many_rows_;
  AmxFewRowsKernel<T> few_rows_;
};

// fp32 has no AMX kernels: the planner takes the AVX-512 ones.
template <template <class> class Kernel, fms_kernel_family Family>
void run_amx(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  const int threads = plan.problem.dtype == FMS_BF16
                          ? run_items<Avx512, Bf16, Kernel<Bf16>, TileScope>(plan, args, workspace)
                          : run_items<Avx512, Half, Kernel<Half>, TileScope>(plan, args, workspace);
  report(plan, args, FMS_ISA_AMX, Family, threads);
}

}  // namespace

// Everything else is the AVX-512 level's: the planner asks for it there.
constexpr KernelTable amx_kernels{nullptr, run_amx<AmxFewRowsKernel, FMS_KERNEL_GEMV>,
                                  run_amx<AmxMixedKernel, FMS_KERNEL_AMX>, nullptr, nullptr};

}  // namespace flashmoe::cpu
