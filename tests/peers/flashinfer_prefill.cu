// FlashInfer's single prefill, fp16 in and out, planned by its own SinglePrefillWithKVCacheDispatched.
// -DPEER_HEAD_DIM=64|128|256 -DPEER_CAUSAL=0|1 -DPEER_CTA_TILE_Q=16|64|128 -DPEER_NUM_MMA_KV=...
#include "flashinfer_common.cuh"

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>

extern "C" const char* peer_name(void) {
  return "FlashInfer single prefill";
}

extern "C" const char* peer_run(const PeerProblem* p) {
  using namespace flashinfer;
  return peer_guarded([&] {
    if (p->batch != 1 || p->head_dim != PEER_HEAD_DIM || (p->causal != 0) != (PEER_CAUSAL != 0))
      throw std::runtime_error("this plug-in has one batch, one head size and one mask");
    constexpr MaskMode kMask = PEER_CAUSAL ? MaskMode::kCausal : MaskMode::kNone;
    using Params = SinglePrefillParams<half, half, half>;
    using Variant = DefaultAttention<false, false, false, false>;
    const uint32_t kv_stride = p->heads_kv * p->head_dim;
    Params params(static_cast<half*>(const_cast<void*>(p->q)), static_cast<half*>(const_cast<void*>(p->k)),
                  static_cast<half*>(const_cast<void*>(p->v)), nullptr, static_cast<half*>(p->o), p->lse, nullptr,
                  p->heads_q, p->heads_kv, p->len_q, p->len_kv, p->heads_q * p->head_dim, p->head_dim, kv_stride,
                  p->head_dim, p->head_dim, -1, 0.F, p->scale, 1.F, 1e4F);
    return SinglePrefillWithKVCacheDispatched<PEER_HEAD_DIM, PEER_HEAD_DIM, PosEncodingMode::kNone, false, kMask,
                                              Variant>(params, static_cast<half*>(p->workspace), nullptr);
  });
}
