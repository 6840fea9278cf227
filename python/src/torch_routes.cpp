// Operators of torch's own that the library answers on the CPU while their route is open (flashmoe_science/routing.py):
//
//   varlen: aten::_flash_attention_forward, which torch.nn.attention.varlen_attn calls; torch has no CPU kernel of it.
//
//   sdpa: aten::_scaled_dot_product_flash_attention_for_cpu, where F.scaled_dot_product_attention leads on the CPU.
//
// A route is a registration with torch's dispatcher. Closing it takes the registration back, and what was there before
// is there again.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "contexts.hpp"
#include "torch_tensors.hpp"

namespace flashmoe::python {
namespace {

using torch::stable::detail::StableLibrary;

template <class T>
T take(StableIValue value) {
  return torch::stable::detail::to<T>(value);
}

// What flashmoe_science::attention takes.
struct OperatorCall {
  Tensor q, k, v;
#define FMS_FLOATS(slot, name, dtype) std::optional<Tensor> name{};
#define FMS_INDICES(slot, name) std::optional<Tensor> name{};
#include "attention_arguments.def"
  std::optional<double> scale{};
  int64_t window_left = -1, window_right = -1;
  std::optional<int64_t> max_q{}, max_kv{};
  int64_t num_splits = 0;
  bool top_left = false;
  std::string layout = "bshd";
};

// Each begins with a comma.
constexpr std::string_view options_of_schema =
#define FMS_OPTION(slot, name, stub, default, schema) schema
#include "attention_arguments.def"
    ;

// Through the dispatcher, so that profilers see who computes.
std::tuple<Tensor, Tensor> call_operator(const OperatorCall& call) {
  using torch::stable::detail::from;
  std::array stack{
#define FMS_REQUIRED(slot, name) from(call.name),
#define FMS_FLOATS(slot, name, dtype) from(call.name),
#define FMS_INDICES(slot, name) from(call.name),
#include "attention_arguments.def"
      from(call.scale),    from(call.window_left),   from(call.window_right), from(0.0 /* softcap */),
      from(call.max_q),    from(call.max_kv),        from(call.layout),       from(call.num_splits),
      from(call.top_left), from(false /* partial */)};
  constexpr std::size_t tensors = 0
#define FMS_REQUIRED(slot, name) +1
#define FMS_FLOATS(slot, name, dtype) +1
#define FMS_INDICES(slot, name) +1
#include "attention_arguments.def"
      ;
  static_assert(stack.size() == tensors + std::count(options_of_schema.begin(), options_of_schema.end(), ','),
                "arguments are passed by position: a new option has its place above");
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("flashmoe_science::attention", "", stack.data(), TORCH_ABI_VERSION));
  return {take<Tensor>(stack[0]), take<Tensor>(stack[1])};
}

// ---- varlen --------------------------------------------------------------------------------------------------------

void refuse_unless(bool holds, const char* what) {
  if (!holds) {
    raise({FailureKind::kNotSupported, std::string("flashmoe_science answers varlen_attn on the CPU without ") + what});
  }
}

// Boxed by hand: torch 2.10 has 15 arguments here, and later ones have block_table and num_splits too.
void flash_attention_forward(StableIValue* stack, uint64_t argument_count, uint64_t /*output_count*/) {
  const auto q = take<Tensor>(stack[0]), k = take<Tensor>(stack[1]), v = take<Tensor>(stack[2]);
  const auto cu_q = take<std::optional<Tensor>>(stack[3]), cu_kv = take<std::optional<Tensor>>(stack[4]);
  const auto max_q = take<int64_t>(stack[5]), max_kv = take<int64_t>(stack[6]);
  const auto dropout = take<double>(stack[7]);
  const auto causal = take<bool>(stack[8]);
  const auto scale = take<std::optional<double>>(stack[10]);
  const auto left = take<std::optional<int64_t>>(stack[11]), right = take<std::optional<int64_t>>(stack[12]);
  const auto kv_lengths = take<std::optional<Tensor>>(stack[13]), alibi = take<std::optional<Tensor>>(stack[14]);
  const bool has_pages = argument_count > 15;
  const auto block_table = has_pages ? take<std::optional<Tensor>>(stack[15]) : std::nullopt;
  const auto num_splits = has_pages ? take<std::optional<int64_t>>(stack[16]) : std::nullopt;
  refuse_unless(dropout == 0.0, "dropout");
  refuse_unless(!alibi.has_value(), "alibi_slopes");

  const bool is_paged = block_table.has_value();
  refuse_unless(is_paged || !kv_lengths.has_value(), "seqused_k of packed keys; give block_table too");
  OperatorCall call{.q = q, .k = k, .v = v};
  call.cu_q = cu_q;
  if (!is_paged) {
    call.cu_kv = cu_kv;
  }
  call.kv_lengths = kv_lengths;
  call.block_table = block_table;
  call.scale = scale;
  call.window_left = left.value_or(-1);
  call.window_right = causal ? 0 : right.value_or(-1);
  if (cu_q.has_value()) {
    call.max_q = max_q;
  }
  if (call.cu_kv.has_value() || is_paged) {
    call.max_kv = max_kv;
  }
  call.num_splits = num_splits.value_or(0);
  const auto [out, lse] = call_operator(call);
  const int64_t none = 0;
  const auto empty = [&] { return torch::stable::new_empty(q, torch::headeronly::IntHeaderOnlyArrayRef(&none, 1)); };
  stack[0] = torch::stable::detail::from(out);
  stack[1] = torch::stable::detail::from(lse);
  for (const int unused : {2, 3, 4}) {  // of dropout, and for debugging
    stack[unused] = torch::stable::detail::from(empty());
  }
}

// ---- sdpa ----------------------------------------------------------------------------------------------------------

bool has_amx() {
  static const bool has = [] {
    Failure failure;
    return fms_context_cpu_isa(context_at({}, failure)) == FMS_ISA_AMX;
  }();
  return has;
}

// Where the library is ahead of torch's kernel; the rest goes to that.
bool is_ahead(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, const std::optional<Tensor>& mask) {
  const ScalarType dtype = q.scalar_type();
  const bool is_half = dtype == ScalarType::Half || dtype == ScalarType::BFloat16;
  const bool by_type = is_half ? has_amx() : dtype == ScalarType::Float && !mask.has_value();
  bool fits = by_type && dropout == 0.0 && q.size(0) == k.size(0);
  for (const Tensor* tensor : {&q, &k, &v}) {
    fits = fits && tensor->dim() == 4 && tensor->stride(3) == 1;
  }
  return fits && k.size(1) > 0 && q.size(1) % k.size(1) == 0;
}

std::tuple<Tensor, Tensor> original_sdpa(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal,
                                         const std::optional<Tensor>& mask, const std::optional<double>& scale) {
  using torch::stable::detail::from;
  std::array<StableIValue, 7> stack{from(q), from(k), from(v), from(dropout), from(causal), from(mask), from(scale)};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("flashmoe_science::original_sdpa", "", stack.data(), TORCH_ABI_VERSION));
  return {take<Tensor>(stack[0]), take<Tensor>(stack[1])};
}

// The result has the order of the query's dimensions, as torch's has.
std::tuple<Tensor, Tensor> sdpa_for_cpu(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal,
                                        const std::optional<Tensor>& mask, std::optional<double> scale) {
  if (!is_ahead(q, k, v, dropout, mask)) {
    return original_sdpa(q, k, v, dropout, causal, mask, scale);
  }
  const bool rows_first = q.stride(1) < q.stride(2);
  const auto ordered = [&](const Tensor& tensor) {
    return rows_first ? torch::stable::transpose(tensor, 1, 2) : tensor;
  };
  OperatorCall call{.q = ordered(q), .k = ordered(k), .v = ordered(v)};
  call.layout = rows_first ? "bshd" : "bhsd";
  call.bias = mask;
  call.scale = scale;
  call.window_right = causal ? 0 : -1;
  call.top_left = causal;
  auto [out, lse] = call_operator(call);
  if (lse.size(1) > 1 && lse.size(2) > 1) {  // compilers count on the strides of torch's
    lse = torch::stable::transpose(torch::stable::contiguous(torch::stable::transpose(lse, 1, 2)), 1, 2);
  }
  return {ordered(out), lse};
}

// ---- opening and closing -------------------------------------------------------------------------------------------

std::mutex routes_mutex;
std::map<std::string, std::unique_ptr<StableLibrary>> open_routes;  // NOLINT(cert-err58-cpp)

void open_route(const std::string& name) {
  const std::lock_guard lock(routes_mutex);
  std::unique_ptr<StableLibrary>& route = open_routes[name];
  if (route != nullptr) {
    raise({FailureKind::kValue, "the route " + name + " is open already"});
  }
  auto library = std::make_unique<StableLibrary>(StableLibrary::Kind::IMPL, "aten", "CPU", "torch_routes.cpp", 1);
  if (name == "varlen") {
    library->impl("_flash_attention_forward", &flash_attention_forward);
  } else if (name == "sdpa") {
    library->impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_BOX(&sdpa_for_cpu));
  } else {
    raise({FailureKind::kValue, "there is no route " + name + "; there are varlen and sdpa"});
  }
  route = std::move(library);
}

void close_route(const std::string& name) {
  const std::lock_guard lock(routes_mutex);
  open_routes.erase(name);
}

}  // namespace
}  // namespace flashmoe::python

STABLE_TORCH_LIBRARY_FRAGMENT(flashmoe_science, m) {
  m.def("open_route(str name) -> ()");
  m.def("close_route(str name) -> ()");
  m.def(
      "original_sdpa(Tensor query, Tensor key, Tensor value, float dropout_p, bool is_causal, Tensor? attn_mask, "
      "float? scale) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(flashmoe_science, CompositeExplicitAutograd, m) {
  m.impl("open_route", TORCH_BOX(&flashmoe::python::open_route));
  m.impl("close_route", TORCH_BOX(&flashmoe::python::close_route));
}
