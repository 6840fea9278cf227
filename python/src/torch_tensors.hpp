// Tensors of torch's stable ABI as the binding's views, and the other way round. In an unnamed namespace: the
// operators' translation units have a copy each.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "failure.hpp"
#include "tensor_checks.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline flashmoe::python::ScalarType scalar_type_of(ScalarType type) {
  using Ours = flashmoe::python::ScalarType;
  switch (type) {
    case ScalarType::Half:
      return Ours::kF16;
    case ScalarType::BFloat16:
      return Ours::kBF16;
    case ScalarType::Float:
      return Ours::kF32;
    case ScalarType::Double:
      return Ours::kF64;
    case ScalarType::Int:
      return Ours::kI32;
    case ScalarType::Long:
      return Ours::kI64;
    case ScalarType::Bool:
      return Ours::kBool;
    case ScalarType::Float8_e4m3fn:
      return Ours::kF8E4M3FN;
    case ScalarType::Float8_e5m2:
      return Ours::kF8E5M2;
    case ScalarType::Float8_e4m3fnuz:
      return Ours::kF8E4M3FNUZ;
    case ScalarType::Float8_e5m2fnuz:
      return Ours::kF8E5M2FNUZ;
    default:
      return Ours::kOther;
  }
}

// Without STD_TORCH_CHECK's prefix of a source file and a line, which mean nothing to the caller.
[[noreturn]] inline void raise(const Failure& failure) {
  throw std::runtime_error(failure.message);
}

inline TensorView view_of(const char* name, const Tensor& tensor) {
  TensorView view;
  if (tensor.dim() > kMaxDims) {
    raise({FailureKind::kValue, std::string(name) + " has " + std::to_string(tensor.dim()) + " dimensions; at most " +
                                    std::to_string(kMaxDims) + " are allowed"});
  }
  view.ndim = static_cast<int>(tensor.dim());
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  for (int axis = 0; axis < view.ndim; ++axis) {
    view.shape[axis] = sizes[axis];
    view.strides[axis] = strides[axis];
  }
  view.dtype = scalar_type_of(tensor.scalar_type());
  if (!tensor.is_cpu()) {
    view.place.device = tensor.is_cuda() ? DeviceType::kCuda : DeviceType::kOther;
    view.place.index = tensor.get_device_index();
  }
  view.data = const_cast<void*>(tensor.const_data_ptr());  // the kernels only read inputs
  return view;
}

// An optional argument and where its view lives during the call.
class OptionalView {
 public:
  OptionalView(const char* name, const std::optional<Tensor>& tensor) {
    if (tensor.has_value() && tensor->defined()) {
      view_ = view_of(name, *tensor);
    }
  }
  [[nodiscard]] const TensorView* get() const { return view_.has_value() ? &*view_ : nullptr; }

 private:
  std::optional<TensorView> view_;
};

inline Tensor new_like(const Tensor& like, TensorView& spec, std::optional<ScalarType> dtype) {
  Tensor result = torch::stable::new_empty(
      like, torch::headeronly::IntHeaderOnlyArrayRef(spec.shape.data(), static_cast<size_t>(spec.ndim)), dtype);
  spec.data = result.mutable_data_ptr();
  return result;
}

inline Layout layout_of(const std::string& text) {
  Layout layout = Layout::kBhsd;
  Failure failure;
  if (!parse_layout(text.c_str(), layout, failure)) {
    raise(failure);
  }
  return layout;
}

}  // namespace
}  // namespace flashmoe::python
