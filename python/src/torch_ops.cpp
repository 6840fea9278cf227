// The torch operators flashmoe_science::attention (CPU and CUDA tensors) and ::merge_states (CPU), over torch's stable
// ABI: one binary for every torch from 2.10 on, with or without CUDA. Fake kernels, autograd and merge_states for CUDA
// are registered in Python (flashmoe_science/_torch.py).
#include <dlfcn.h>
#include <torch/csrc/stable/library.h>

#include <cstring>
#include <optional>
#include <string>
#include <tuple>

#include "attention_call.hpp"
#include "merge_call.hpp"
#include "torch_tensors.hpp"

namespace flashmoe::python {
namespace {

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

std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const std::optional<Tensor>& bias, const std::optional<Tensor>& sinks,
                                     const std::optional<Tensor>& cu_q, const std::optional<Tensor>& cu_kv,
                                     const std::optional<Tensor>& kv_lengths, const std::optional<Tensor>& block_table,
                                     const std::optional<Tensor>& bias2, const std::optional<Tensor>& kv_starts,
                                     const std::optional<Tensor>& q_lengths, const std::optional<Tensor>& mask,
                                     const std::optional<Tensor>& k_scales, const std::optional<Tensor>& v_scales,
                                     std::optional<double> scale, int64_t window_left, int64_t window_right,
                                     double softcap, std::optional<int64_t> max_q, std::optional<int64_t> max_kv,
                                     const std::string& layout, int64_t num_splits, bool top_left, bool partial) {
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
  options.top_left = top_left;
  options.partial = partial;
  options.threads = static_cast<int32_t>(torch::stable::get_num_threads());

  AttentionCall call;
  Failure failure;
  if (!prepare_attention(inputs, options, nullptr, nullptr, call, failure)) {
    raise(failure);
  }
  Tensor out = new_like(q, call.out, partial ? std::optional(ScalarType::Float) : std::nullopt);
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
