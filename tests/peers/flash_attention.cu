// FlashAttention-2 forward, fp16, head size 64, through its own dispatch; PEER_SPLIT=1: split keys and combine, with
// the number of splits from its own heuristic (cut out of flash_api.cpp when the plug-in is built). -DPEER_CAUSAL=0|1
// -DPEER_SPLIT=0|1 -DPEER_IsEvenMNConst=true|false
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

constexpr int kHeadDim = 64;

int rounded_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
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
  params.num_splits = 1;
  return params;
}

#if PEER_SPLIT
// What set_params_splitkv of flash_api.cpp does; the accumulators lie in the workspace.
void split(flash::Flash_fwd_params& params, const PeerProblem& p) {
  const int key_blocks = (params.seqlen_k + 255) / 256, query_blocks = (params.seqlen_q + 63) / 64;
  params.num_splits =
      num_splits_heuristic(params.b * params.h * query_blocks, get_num_sm(get_current_device()) * 2, key_blocks, 128);
  const size_t rows = static_cast<size_t>(params.num_splits) * params.b * params.h * params.seqlen_q;
  if (rows * (kHeadDim + 1) * sizeof(float) > p.workspace_bytes) throw std::runtime_error("the workspace is too small");
  params.oaccum_ptr = p.workspace;
  params.softmax_lseaccum_ptr = static_cast<float*>(p.workspace) + rows * kHeadDim;
}
#endif

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
#if PEER_SPLIT
    split(params, *p);
    flash::run_mha_fwd_splitkv_dispatch<cutlass::half_t, kHeadDim, PEER_CAUSAL != 0>(params, nullptr);
#else
    flash::run_mha_fwd_hdim64<cutlass::half_t, PEER_CAUSAL != 0>(params, nullptr);
#endif
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem.c_str();
}
