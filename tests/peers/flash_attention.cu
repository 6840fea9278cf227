// FlashAttention-2 forward, fp16, through its own launch code. Its heuristic (cut out of flash_api.cpp when the plug-in
// is built) says into how many splits the keys go; PEER_SPLIT=1: those kernels and their combine.
// -DPEER_HEAD_DIM=64|128|256 -DPEER_CAUSAL=0|1 -DPEER_SPLIT=0|1 -DPEER_IsEvenMNConst=true|false -DPEER_SM=80|86|89
#include <stdexcept>
#include <string>

#include "namespace_config.h"
#include "static_switch.h"

// Each switch of the dispatch doubles the instances of a kernel that takes half a minute to compile: the plug-in
// carries one side of each, and a problem that wants the other is refused. The other switches have build options of
// their own.
#define PEER_ReturnSoftmaxConst false
#define PEER_Append_KV false
#define PEER_Split true
#undef BOOL_SWITCH
#define BOOL_SWITCH(COND, NAME, ...)                                                         \
  [&] {                                                                                      \
    if ((COND) != PEER_##NAME) throw std::runtime_error("this plug-in has " #NAME " fixed"); \
    constexpr static bool NAME = PEER_##NAME;                                                \
    return __VA_ARGS__();                                                                    \
  }()

#include <algorithm>
#include <cmath>
#include <vector>

#include "flash_fwd_launch_template.h"
#include "peer.h"
#include "split_heuristic.h"

namespace {

constexpr int kHeadDim = PEER_HEAD_DIM;

int rounded_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// As mha_fwd of flash_api.cpp: with a single query, the heads that share keys become the rows of a tile.
bool packs_group(const PeerProblem& p) {
  return p.len_q == 1 && p.heads_q > p.heads_kv && PEER_CAUSAL == 0;
}

// What set_params_fprop of flash_api.cpp does with tensors.
flash::Flash_fwd_params fill(const PeerProblem& p) {
  flash::Flash_fwd_params params = {};
  params.q_ptr = const_cast<void*>(p.q);
  params.k_ptr = const_cast<void*>(p.k);
  params.v_ptr = const_cast<void*>(p.v);
  params.o_ptr = p.o;
  params.softmax_lse_ptr = p.lse;
  params.q_row_stride = params.o_row_stride = p.heads_q * p.head_dim;
  params.k_row_stride = params.v_row_stride = p.heads_kv * p.head_dim;
  params.q_head_stride = params.o_head_stride = params.k_head_stride = params.v_head_stride = p.head_dim;
  params.q_batch_stride = params.o_batch_stride = params.q_row_stride * p.len_q;
  params.k_batch_stride = params.v_batch_stride = params.k_row_stride * p.len_kv;
  params.b = static_cast<int>(p.batch);
  params.h = static_cast<int>(p.heads_q);
  params.h_k = static_cast<int>(p.heads_kv);
  params.h_h_k_ratio = params.h / params.h_k;
  params.seqlen_q = static_cast<int>(p.len_q);
  params.seqlen_k = static_cast<int>(p.len_kv);
  params.seqlen_q_rounded = rounded_up(params.seqlen_q, 128);
  params.seqlen_k_rounded = rounded_up(params.seqlen_k, 128);
  params.d = params.d_rounded = kHeadDim;
  if (packs_group(p)) {
    params.h = params.h_k;
    params.h_h_k_ratio = 1;
    params.seqlen_q = static_cast<int>(p.heads_q / p.heads_kv);
    params.seqlen_q_rounded = rounded_up(params.seqlen_q, 128);
    params.q_row_stride = params.o_row_stride = p.head_dim;
    params.q_head_stride = params.o_head_stride = p.head_dim * params.seqlen_q;
  }
  params.scale_softmax = p.scale;
  params.scale_softmax_log2 = p.scale * static_cast<float>(M_LOG2E);
  params.p_dropout = 1.F;  // the probability to keep
  params.p_dropout_in_uint8_t = 255;
  params.rp_dropout = 1.F;
  params.scale_softmax_rp_dropout = p.scale;
  params.is_causal = PEER_CAUSAL != 0;
  params.window_size_left = -1;
  params.window_size_right = PEER_CAUSAL ? 0 : -1;
  params.is_seqlens_k_cumulative = true;
  return params;
}

// What set_params_splitkv of flash_api.cpp does; the accumulators lie in the workspace.
void split(flash::Flash_fwd_params& params, const PeerProblem& p) {
  constexpr int kBlockKeys = kHeadDim <= 64 ? 256 : kHeadDim <= 128 ? 128 : 64;
  const int key_blocks = (params.seqlen_k + kBlockKeys - 1) / kBlockKeys, query_blocks = (params.seqlen_q + 63) / 64;
  params.num_splits = 1;
  if (p.workspace != nullptr)
    params.num_splits =
        num_splits_heuristic(params.b * params.h * query_blocks, get_num_sm(get_current_device()) * 2, key_blocks, 128);
  if ((params.num_splits > 1) != (PEER_SPLIT != 0)) throw std::runtime_error("this plug-in has Split fixed");
  if (params.num_splits == 1) return;
  const size_t rows = static_cast<size_t>(params.num_splits) * params.b * params.h * params.seqlen_q;
  if (rows * (kHeadDim + 1) * sizeof(float) > p.workspace_bytes) throw std::runtime_error("the workspace is too small");
  params.oaccum_ptr = p.workspace;
  params.softmax_lseaccum_ptr = static_cast<float*>(p.workspace) + rows * kHeadDim;
}

void launch(flash::Flash_fwd_params& params) {
  constexpr bool kCausal = PEER_CAUSAL != 0;
#if PEER_SPLIT
  flash::run_mha_fwd_splitkv_dispatch<cutlass::half_t, kHeadDim, kCausal>(params, nullptr);
#elif PEER_HEAD_DIM == 64
  flash::run_mha_fwd_hdim64<cutlass::half_t, kCausal>(params, nullptr);
#elif PEER_HEAD_DIM == 256
  // run_mha_fwd_hdim256 likewise (below): an A100 has tiles of its own.
  static_assert(PEER_SM == 89, "the tiles of an A100 are not carried");
  flash::run_flash_fwd<Flash_fwd_kernel_traits<kHeadDim, 64, 64, 4, false, false, cutlass::half_t>, false, kCausal>(
      params, nullptr);
#else
  // run_mha_fwd_hdim128 asks the device at run time, and carries the tiles of sm_86 and sm_89 beside those of all
  // others: one half alone.
  const auto [major, minor] = get_compute_capability(get_current_device());
  constexpr bool kIsSm8x = PEER_SM != 80;
  if ((major == 8 && minor > 0) != kIsSm8x) throw std::runtime_error("this plug-in has the tiles of another GPU");
  constexpr int kRows = kIsSm8x && kCausal ? 64 : 128, kKeys = kIsSm8x && !kCausal ? 32 : 64;
  using Traits = Flash_fwd_kernel_traits<kHeadDim, kRows, kKeys, 4, false, false, cutlass::half_t>;
  flash::run_flash_fwd<Traits, false, kCausal>(params, nullptr);
#endif
}

}  // namespace

extern "C" const char* peer_name(void) {
  return PEER_SPLIT ? "FlashAttention-2 forward, split and combined" : "FlashAttention-2 forward";
}

extern "C" const char* peer_run(const PeerProblem* p) {
  static thread_local std::string problem;
  try {
    if (p->head_dim != kHeadDim || (p->causal != 0) != (PEER_CAUSAL != 0))
      throw std::runtime_error("this plug-in has one head size and one mask");
    flash::Flash_fwd_params params = fill(*p);
    split(params, *p);
    launch(params);
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem.c_str();
}
