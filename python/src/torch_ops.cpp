// The torch operators flashmoe_science::attention (CPU and CUDA tensors) and ::merge_states (CPU), over torch's stable
// ABI: one binary for every torch from 2.10 on, with or without CUDA. Fake kernels, autograd and merge_states for CUDA
// are registered in Python (flashmoe_science/_torch.py).
#include <dlfcn.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "attention_call.hpp"
#include "merge_call.hpp"

namespace flashmoe::python {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

flashmoe::python::ScalarType scalar_type_of(ScalarType type) {
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
[[noreturn]] void raise(const Failure& failure) {
  throw std::runtime_error(failure.message);
}

TensorView view_of(const char* name, const Tensor& tensor) {
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

Tensor new_like(const Tensor& like, TensorView& spec, std::optional<ScalarType> dtype) {
  Tensor result = torch::stable::new_empty(
      like, torch::headeronly::IntHeaderOnlyArrayRef(spec.shape.data(), static_cast<size_t>(spec.ndim)), dtype);
  spec.data = result.mutable_data_ptr();
  return result;
}

// The stream that torch is using. Its shim is in libtorch_cuda.so, which a torch without CUDA does not have, so that it
// is looked for and not linked.
fms_stream current_stream(int device_index) {
  using GetStream = int (*)(int32_t device_index, void** stream);
  static const GetStream get_stream = [] {
    GetStream found = nullptr;
    if (void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD)) {
      void* symbol = dlsym(library, "aoti_torch_get_current_cuda_stream");
      std::memcpy(&found, &symbol, sizeof symbol);
      dlclose(library);  // torch keeps it
    }
    return found;
  }();
  fms_stream stream = nullptr;
  if (get_stream == nullptr || get_stream(device_index, &stream) != 0) {
    raise({FailureKind::kRuntime, "this torch cannot tell its current CUDA stream: it was built without CUDA"});
  }
  return stream;
}

// Nothing waits and nothing but torch's own allocator, which knows of captures, is asked for memory; so this may be
// captured in a graph once a call of the same kind has loaded the kernel. The workspace goes back to the allocator
// before the kernel has run: the next owner of that memory comes after it on the same stream.
bool queue_on_current_stream(const Tensor& q, AttentionCall& call, Failure& failure) {
  const fms_stream stream = current_stream(call.out.place.index);
  std::optional<Tensor> workspace;
  if (call.plan.workspace_bytes > 0) {
    const auto bytes = static_cast<int64_t>(call.plan.workspace_bytes);
    workspace = torch::stable::new_empty(q, torch::headeronly::IntHeaderOnlyArrayRef(&bytes, 1), ScalarType::Byte);
  }
  return queue_attention(call, workspace.has_value() ? workspace->mutable_data_ptr() : nullptr, stream, failure);
}

Layout layout_of(const std::string& text) {
  Layout layout = Layout::kBhsd;
  Failure failure;
  if (!parse_layout(text.c_str(), layout, failure)) {
    raise(failure);
  }
  return layout;
}

std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const std::optional<Tensor>& bias, const std::optional<Tensor>& sinks,
                                     const std::optional<Tensor>& cu_q, const std::optional<Tensor>& cu_kv,
                                     const std::optional<Tensor>& kv_lengths, const std::optional<Tensor>& block_table,
                                     const std::optional<Tensor>& bias2, std::optional<double> scale,
                                     int64_t window_left, int64_t window_right, double softcap,
                                     std::optional<int64_t> max_q, std::optional<int64_t> max_kv,
                                     const std::string& layout, int64_t num_splits) {
#define FMS_FLOATS(slot, name, dtype) const OptionalView name##_view(#name, name);
#define FMS_INDICES(slot, name) const OptionalView name##_view(#name, name);
#include "attention_arguments.def"
  AttentionInputs inputs;
#define FMS_REQUIRED(slot, name) inputs.name = view_of(#name, name);
#define FMS_FLOATS(slot, name, dtype) inputs.name = name##_view.get();
#define FMS_INDICES(slot, name) inputs.name = name##_view.get();
#include "attention_arguments.def"
  AttentionOptions options;
  options.has_scale = scale.has_value();
  options.scale = scale.value_or(0.0);
  options.softcap = softcap;
  options.window_left = window_left;
  options.window_right = window_right;
  options.max_q = max_q.value_or(kUnset);
  options.max_kv = max_kv.value_or(kUnset);
  options.layout = layout_of(layout);
  options.wants_lse = true;
  options.num_splits = num_splits;
  options.threads = static_cast<int32_t>(torch::stable::get_num_threads());

  AttentionCall call;
  Failure failure;
  if (!prepare_attention(inputs, options, nullptr, nullptr, call, failure)) {
    raise(failure);
  }
  Tensor out = new_like(q, call.out, std::nullopt);
  Tensor lse = new_like(q, call.lse, ScalarType::Float);
  if (!(q.is_cuda() ? queue_on_current_stream(q, call, failure) : run_attention(call, failure))) {
    raise(failure);
  }
  return {out, lse};
}

std::tuple<Tensor, Tensor> merge_states(const Tensor& o_a, const Tensor& lse_a, const Tensor& o_b, const Tensor& lse_b,
                                        const std::string& layout) {
  MergeCall call;
  Failure failure;
  if (!prepare_merge(view_of("o_a", o_a), view_of("lse_a", lse_a), view_of("o_b", o_b), view_of("lse_b", lse_b),
                     layout_of(layout), false, call, failure)) {
    raise(failure);
  }
  Tensor out = new_like(o_a, call.out, std::nullopt);
  Tensor lse = new_like(lse_a, call.lse, std::nullopt);
  if (!run_merge(call, failure)) {
    raise(failure);
  }
  return {out, lse};
}

}  // namespace
}  // namespace flashmoe::python

STABLE_TORCH_LIBRARY(flashmoe_science, m) {
  m.def(
      "attention(Tensor q, Tensor k, Tensor v"
#define FMS_FLOATS(slot, name, dtype) ", Tensor? " #name "=None"
#define FMS_INDICES(slot, name) ", Tensor? " #name "=None"
#include "attention_arguments.def"
      ", *"
#define FMS_OPTION(slot, name, stub, default, schema) schema
#include "attention_arguments.def"
      ") -> (Tensor out, Tensor lse)");
  m.def("merge_states(Tensor o_a, Tensor lse_a, Tensor o_b, Tensor lse_b, *, str layout='bhsd') -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(flashmoe_science, CUDA, m) {
  m.impl("attention", TORCH_BOX(&flashmoe::python::attention));
}

STABLE_TORCH_LIBRARY_IMPL(flashmoe_science, CPU, m) {
  m.impl("attention", TORCH_BOX(&flashmoe::python::attention));
  m.impl("merge_states", TORCH_BOX(&flashmoe::python::merge_states));
}
