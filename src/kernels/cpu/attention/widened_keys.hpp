// Keys and values of 8 bits: a thread widens those of the head it is working on to the type of the queries, which holds
// them exactly, and a kernel reads the copy. What a head is scaled by joins the scale of its scores and the factor of
// its results, so that nothing is rounded once more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/geometry.hpp"

namespace flashmoe::cpu {
namespace {

template <class V, class T>
class WidenedKeys {
 public:
  WidenedKeys(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* copies)
      : plan_(plan), args_(args), keys_(reinterpret_cast<T*>(copies)) {
    fms_attention_problem& p = plan_.problem;
    softmax_scale_ = p.softmax_scale;
    values_ = keys_ + p.kv_len * p.head_dim;
    p.k = {0, 0, p.head_dim};
    p.v = {0, 0, p.value_dim};
    p.features &= ~static_cast<uint32_t>(FMS_PAGED_KV);
    args_.k = keys_;
    args_.v = values_;
  }

  // As a kernel for this head has to have it.
  [[nodiscard]] const fms_attention_plan& plan() const { return plan_; }

  [[nodiscard]] bool is_of(const Head& h) const { return batch_ == h.batch && kv_head_ == h.kv_head; }
  void begin(const Head& h) {
    batch_ = h.batch;
    kv_head_ = h.kv_head;
    done_ = {0, 0};
    plan_.problem.softmax_scale = softmax_scale_ * args_.k_scales[h.kv_head];
  }

  // The head with `keys` of it widened, whole chunks, as some kernels read them. Items of a head come in order.
  Head widened(const Head& h, KeyRange keys) {
    constexpr int64_t chunk = plan::amx_chunk_keys;
    const KeyRange wanted{keys.lo / chunk * chunk, smaller(plan::round_up(keys.hi, chunk), h.kv_len)};
    if (keys.lo < keys.hi) {
      if (wanted.lo < done_.lo || wanted.lo > done_.hi) done_ = {wanted.lo, wanted.lo};
      for (; done_.hi < wanted.hi; ++done_.hi) {
        widen(k_rows<E4m3>(h)[done_.hi], h.problem->head_dim, keys_);
        widen(v_rows<E4m3>(h)[done_.hi], h.problem->value_dim, values_);
      }
    }
    Head copy = h;
    copy.problem = &plan_.problem;
    copy.args = &args_;
    copy.k_offset = copy.v_offset = 0;
    copy.pages = nullptr;
    return copy;
  }

 private:
  void widen(const E4m3* from, int64_t dim, T* rows) const {
    T* const to = rows + done_.hi * dim;
    int64_t d = 0;
    if constexpr (requires { V::widen32(from, to); } && sizeof(T) == 2) {
      for (; d + 32 <= dim; d += 32) V::widen32(from + d, to + d);
    }
    for (; d + V::width <= dim; d += V::width) V::store_as(to + d, V::load_as(from + d));
    if (d == dim) return;
    const auto n = static_cast<int>(dim - d);
    V::store_as(to + d, V::load_as(from + d, n), n);
  }

  fms_attention_plan plan_;
  fms_attention_args args_;
  T* keys_;
  T* values_;
  float softmax_scale_;
  int64_t batch_ = -1, kv_head_ = -1;
  KeyRange done_{0, 0};
};

}  // namespace
}  // namespace flashmoe::cpu
