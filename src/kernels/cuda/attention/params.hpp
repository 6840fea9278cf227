// What a launch hands to a kernel: plain data, the same for the host and the device, passed by value. Strides are in
// elements, as in the API.
#pragma once

namespace flashmoe::cuda {

struct RowStrides {
  long long batch, head, row;
};

// n / divisor for 0 <= n < 2^31: (2 n * magic) >> (32 + shift), of which the divisor 1 is no special case.
struct Division {
  unsigned int magic, shift;
};

struct ForwardParams {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;              // null: not asked for
  const void* bias;        // null: none
  const float* sinks;      // null: none
  const int* q_begins;     // null: not ragged
  const int* kv_begins;    // null: not ragged
  const int* kv_lengths;   // null: all kv_len
  const int* block_table;  // paged instances
  float* partial;          // splits > 1: [batch x kv head][row tile][split][row warp][a warp's state]
                           // with a list: [kv head][list_slots][row warp][a warp's state]
  unsigned int* arrived;   // splits > 1: [batch x kv head][row tile], with a list: [kv head][list_slots]; zero before
                           // and after a launch
  RowStrides q_strides, k_strides, v_strides, o_strides, lse_strides;
  int k_row_bytes, v_row_bytes;  // of the strides, for interior blocks
  long long bias_batch, bias_head, bias_q;
  int bias_kv;
  int q_len, kv_len;  // the longest
  int head_dim;       // at most the instance's; elements beyond it count as zero
  int kv_heads, group;
  int window_left, window_right;  // keys to see before and after the aligned one; unbounded: 2^30 - 1
  // What is read together stands together, at a multiple of 8 bytes: one load.
  int tiles;   // row tiles of a head; without a list
  int turns;   // likewise: 0: head after head, else the longest tiles of all heads first, so many rounds there and back
  int splits;  // 0: with a list
  int batch;
  int list_items;  // CTAs for each kv head
  int list_slots;  // states for each kv head
  int bias_kind;   // 1: fp16, 2: bf16, 3: fp32
  int is_aligned;  // rows of q, k, v and o begin at multiples of 16 bytes
  int page_size, block_table_stride;
  Division by_page_size, by_group, by_kv_heads, by_splits;
  Division by_sms, by_heads;       // for turns: batch x kv heads
  float scale;                     // of the softmax; modified scores
  float scale_log2;                // |scale| * log2(e); 1 when scores are modified
  float most_growth;               // of a row's largest score, before what it met fades: most_log2_weight / scale_log2
  float lowest;                    // below every score, yet lowest * scale_log2 is finite
  float softcap, inverse_softcap;  // 0: none
  unsigned int q_sign;             // 0x80008000 for a negative scale of scores that are not modified
  int sms;                         // for turns
};

// Added to the scores; strides 0 broadcast.
struct BiasTerm {
  const void* values;  // null: none
  long long batch, head, q;
  int kv, kind;  // as bias_kv, bias_kind
  Division by_group;
};

// What only some kernels read: those of modified scores, and those whose values have a size of their own. The others
// are compiled for the part before it, so that it costs them nothing.
struct ExtendedParams : ForwardParams {
  BiasTerm bias2;
  Division by_bias_group;  // neighbours of the batch that share an entry of the first bias
  int adds_fours;          // rows of every bias are dense and begin at multiples of four elements
  int value_dim;           // at most the instance's; elements beyond it count as zero
};

}  // namespace flashmoe::cuda
