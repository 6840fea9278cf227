// Whether two strided tensors have a byte in common: not their ranges, which interleaved views of one buffer share.
#pragma once

#include <cstdint>

namespace flashmoe::api {

struct StridedAxis {
  int64_t count, stride_bytes;  // strides are not negative
};

// Runs of contiguous bytes, one for every combination of steps along the axes. A count of 0 leaves none.
struct StridedBytes {
  static constexpr int max_axes = 4;
  std::uintptr_t base;
  int64_t run_bytes;
  StridedAxis axes[max_axes] = {{1, 0}, {1, 0}, {1, 0}, {1, 0}};

  [[nodiscard]] bool is_empty() const {
    return run_bytes == 0 || axes[0].count == 0 || axes[1].count == 0 || axes[2].count == 0 || axes[3].count == 0;
  }
  // Behind the last byte.
  [[nodiscard]] std::uintptr_t end() const {
    int64_t bytes = run_bytes;
    for (const StridedAxis& axis : axes) bytes += (axis.count - 1) * axis.stride_bytes;
    return base + static_cast<std::uintptr_t>(bytes);
  }
  // The same bytes in the same order: steps along the same axes lead to the same places.
  [[nodiscard]] bool is_same(const StridedBytes& other) const;
};

// Exact for everything that people lay out; strides so tangled that the search does not end count as an overlap.
[[nodiscard]] bool have_common_bytes(const StridedBytes& a, const StridedBytes& b);

}  // namespace flashmoe::api
