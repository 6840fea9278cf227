/* What a peer's plug-in offers to the harness: one attention problem on device pointers, planned and launched by the
 * peer's own host code. Plain C, because the two sides are built by different compilers. */
#ifndef FLASHMOE_TESTS_PEER_H
#define FLASHMOE_TESTS_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fp16; q and o are (batch, len_q, heads_q, head_dim), k and v (batch, len_kv, heads_kv, head_dim), all dense. */
struct PeerProblem {
  uint32_t batch, heads_q, heads_kv, len_q, len_kv, head_dim;
  int causal; /* aligned to the lower right corner */
  float scale;
  const void *q, *k, *v; /* device */
  void* o;               /* device */
  float* lse;            /* device; layout and base are the peer's own */
  void* workspace;       /* device; null: the peer may not split the keys */
  size_t workspace_bytes;
};

/* Null when all its kernels were launched, else what is wrong. */
const char* peer_run(const struct PeerProblem* problem);
/* What it launches, in words: "FlashInfer single prefill". */
const char* peer_name(void);

#ifdef __cplusplus
}
#endif

#endif
