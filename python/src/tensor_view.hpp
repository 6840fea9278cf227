// What the binding knows of an array, whichever framework owns it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "scalar_type.hpp"

namespace flashmoe::python {

enum class DeviceType : uint8_t { kCpu, kCuda, kMeta, kOther };  // kMeta: of descriptions only

inline constexpr int kMaxGpus = 64;

struct Place {
  DeviceType device = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Place&) const = default;
};

inline constexpr int kMaxDims = 5;  // a bias may have five

struct TensorView {
  void* data = nullptr;  // null only for a shape or a description
  ScalarType dtype = ScalarType::kOther;
  Place place;
  int ndim = 0;
  std::array<int64_t, kMaxDims> shape{};
  std::array<int64_t, kMaxDims> strides{};  // in elements
};

inline void set_contiguous_strides(TensorView& view) {
  int64_t stride = 1;
  for (int axis = view.ndim - 1; axis >= 0; --axis) {
    view.strides[axis] = stride;
    stride *= std::max<int64_t>(view.shape[axis], 1);  // no stride of 0 where there is nothing to step over
  }
}

inline int64_t element_count(const TensorView& view) {
  int64_t count = 1;
  for (int axis = 0; axis < view.ndim; ++axis) {
    count *= view.shape[axis];
  }
  return count;
}

inline bool is_contiguous(const TensorView& view) {
  int64_t expected = 1;
  for (int axis = view.ndim - 1; axis >= 0; --axis) {
    if (view.shape[axis] != 1 && view.strides[axis] != expected) {
      return false;
    }
    expected *= view.shape[axis];
  }
  return true;
}

}  // namespace flashmoe::python
