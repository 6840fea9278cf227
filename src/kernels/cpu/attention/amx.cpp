#include <type_traits>

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

// Each sequence of a ragged batch takes the path that fits it: decodes beside a prefill are decoded, those of fp32
// without tiles.
template <class T>
class AmxMixedKernel {
  static constexpr bool few_rows_on_tiles = !__is_same(T, float);
  using FewRowsKernel = std::conditional_t<few_rows_on_tiles, AmxFewRowsKernel<T>, GemvKernel<Avx512, T>>;

 public:
  AmxMixedKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : has_few_rows_(plan::has_few_rows_beside(plan)),
        few_rows_layout_(plan::few_rows_layout(plan, layout)),
        many_rows_(plan, layout, workspace, thread),
        few_rows_(plan, few_rows_layout_, workspace, thread) {}

  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    if (has_few_rows_ && h.rows() <= plan::amx_few_rows) {
      if constexpr (few_rows_on_tiles) are_tiles_whole_ = false;
      return few_rows_.run_item(h, first_row, last_row, split);
    }
    finish();
    many_rows_.run_item(h, first_row, last_row, split);
  }
  void finish() {
    if (are_tiles_whole_) return;
    if constexpr (few_rows_on_tiles) {
      few_rows_.forget_tiles();
      load_tile_config(TileConfig{});
      are_tiles_whole_ = true;
    }
  }

 private:
  bool has_few_rows_, are_tiles_whole_ = true;
  plan::CpuLayout few_rows_layout_;
  AmxKernel<T> many_rows_;
  FewRowsKernel few_rows_;
};

template <class T, class Kernel>
void run_on_tiles(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  const int threads = run_items<Avx512, T, Kernel, TileScope>(plan, args, workspace);
  report(plan, args, FMS_ISA_AMX, plan.family, threads);
}

// Few rows of fp32 are the AVX-512 level's: the planner asks for them there.
void run_few_rows(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  return plan.problem.dtype == FMS_BF16 ? run_on_tiles<Bf16, AmxFewRowsKernel<Bf16>>(plan, args, workspace)
                                        : run_on_tiles<Half, AmxFewRowsKernel<Half>>(plan, args, workspace);
}

void run_rows(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  visit_dtype(plan.problem.dtype, [&](auto element) {
    using T = decltype(element);
    run_on_tiles<T, AmxMixedKernel<T>>(plan, args, workspace);
  });
}

}  // namespace

// Everything else is the AVX-512 level's: the planner asks for it there.
constexpr KernelTable amx_kernels{nullptr, run_few_rows, run_rows, nullptr, nullptr};

}  // namespace flashmoe::cpu
