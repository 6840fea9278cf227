// One attention problem with its data: every buffer fenced, every byte that the library has no business with poisoned.
// Input bytes outside the rows that exist are NaN; output bytes outside the rows to be written must stay as they were.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flashmoe/flashmoe.h"
#include "support/fenced_buffer.hpp"

namespace flashmoe::testing {

struct IndexArrays {
  std::vector<int32_t> cu_q, cu_kv, kv_lengths, block_table;
  std::vector<int32_t> kv_starts = {}, q_lengths = {};
};

enum class Tensor { kQ, kK, kV, kBias, kBias2, kMask, kSinks };  // the mask: 0 to 255

// The next value to store into a tensor; called once per element that exists, rows in order.
using ValueSource = std::function<double(Tensor)>;

class AttentionCase {
 public:
  AttentionCase(const fms_attention_problem& problem, IndexArrays indices, const ValueSource& values,
                Fence fence = Fence::kAfter);

  const fms_attention_problem& problem() const { return problem_; }
  fms_attention_args args() const;
  // Every buffer that args() points at, for runs on memory of another device. Two of them are written.
  static constexpr size_t kOutputBuffer = 3, kLseBuffer = 4;
  std::vector<std::span<uint8_t>> buffers() const;

  bool has(fms_feature feature) const { return (problem_.features & feature) != 0; }
  int64_t q_length(int64_t b) const;
  int64_t kv_length(int64_t b) const;
  int64_t kv_start(int64_t b) const;
  fms_dtype output_dtype() const { return has(FMS_PARTIAL) ? FMS_F32 : problem_.dtype; }
  bool is_visible(int64_t b, int64_t i, int64_t j) const;  // where no mask hides it
  bool mask_shows(int64_t b, int64_t h, int64_t i, int64_t j) const;

  // Element offsets into the tensors.
  int64_t q_offset(int64_t b, int64_t h, int64_t i) const;
  int64_t k_offset(int64_t b, int64_t g, int64_t j) const;
  int64_t v_offset(int64_t b, int64_t g, int64_t j) const;
  int64_t o_offset(int64_t b, int64_t h, int64_t i) const;
  int64_t lse_offset(int64_t b, int64_t h, int64_t i) const;
  int64_t bias_offset(int64_t b, int64_t h, int64_t i, int64_t j) const;
  int64_t bias2_offset(int64_t b, int64_t h, int64_t i, int64_t j) const;
  int64_t mask_offset(int64_t b, int64_t h, int64_t i, int64_t j) const;

  double q_value(int64_t offset) const;
  void set(Tensor tensor, int64_t offset, double value);
  double o_value(int64_t offset) const;
  float lse_value(int64_t offset) const;
  std::vector<uint8_t> output_bytes() const;  // o, then lse

  void reset_outputs();
  // What was written that must not be, or nothing.
  std::optional<std::string> stray_write() const;

  // Every field and index array, enough to build the problem again.
  std::string describe() const;

 private:
  int64_t q_side_offset(const fms_strides& stride, int64_t b, int64_t h, int64_t i) const;
  int64_t kv_side_offset(const fms_strides& stride, int64_t b, int64_t g, int64_t j) const;
  void fill_inputs(const ValueSource& values);
  FencedBuffer& buffer(Tensor tensor);

  fms_attention_problem problem_;
  IndexArrays indices_;
  FencedBuffer q_, k_, v_, o_, lse_, bias_, bias2_, mask_, sinks_, k_scales_, v_scales_;
  FencedBuffer cu_q_, cu_kv_, kv_lengths_, block_table_, kv_starts_, q_lengths_;
};

}  // namespace flashmoe::testing
