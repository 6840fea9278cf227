// What the binding knows of an array, whichever framework owns it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace flashmoe::python {

enum class ScalarType : uint8_t { kF16, kBF16, kF32, kF64, kI32, kI64, kBool, kOther };

constexpr const char* scalar_type_name(ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
      return "float16";
    case ScalarType::kBF16:
      return "bfloat16";
    case ScalarType::kF32:
      return "float32";
    case ScalarType::kF64:
      return "float64";
    case ScalarType::kI32:
      return "int32";
    case ScalarType::kI64:
      return "int64";
    case ScalarType::kBool:
      return "bool";
    case ScalarType::kOther:
      break;
  }
  return "another dtype";
}

enum class DeviceType : uint8_t { kCpu, kCuda, kOther };

inline constexpr int kMaxGpus = 64;

struct Place {
  DeviceType device = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Place&) const = default;
};

inline constexpr int kMaxDims = 4;

struct TensorView {
  void* data = nullptr;  // null only for a shape without data (planning)
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
