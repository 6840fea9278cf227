// FlashInfer's single decode, fp16 in and out, planned by its own SingleDecodeWithKVCacheDispatched.
// -DPEER_HEAD_DIM=128 -DPEER_GROUP_SIZE=4
#include "flashinfer_common.cuh"

#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>

extern "C" const char* peer_name(void) {
  return "FlashInfer single decode";
}

extern "C" const char* peer_run(const PeerProblem* p) {
  using namespace flashinfer;
  return peer_guarded([&] {
    if (p->batch != 1 || p->len_q != 1 || p->head_dim != PEER_HEAD_DIM)
      throw std::runtime_error("this plug-in has one batch, one query and one head size");
    using Params = SingleDecodeParams<half, half, half>;
    using Variant = DefaultAttention<false, false, false, false>;
    Params params(static_cast<half*>(const_cast<void*>(p->q)), static_cast<half*>(const_cast<void*>(p->k)),
                  static_cast<half*>(const_cast<void*>(p->v)), static_cast<half*>(p->o), nullptr, p->len_kv, p->heads_q,
                  p->heads_kv, QKVLayout::kNHD, p->head_dim, -1, 0.F, p->scale, 1.F, 1e4F);
    return SingleDecodeWithKVCacheDispatched<PEER_HEAD_DIM, PosEncodingMode::kNone, Variant>(
        params, static_cast<half*>(p->workspace), nullptr);
  });
}
