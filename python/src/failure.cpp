#include "failure.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace flashmoe::python {
namespace {

struct NameInPython {
  std::string_view library;  // fms_error.argument
  const char* python;
};

// The library speaks of its structs; people wrote keyword arguments.
constexpr NameInPython kPythonNames[] = {
    {"problem.dtype", "q.dtype"},
    {"problem.batch", "the batch of q"},
    {"problem.q_heads", "the heads of q"},
    {"problem.kv_heads", "the heads of k"},
    {"problem.q_len", "the length of q (max_q)"},
    {"problem.kv_len", "the length of k (max_kv)"},
    {"problem.head_dim", "the last dimension of q"},
    {"problem.value_dim", "the last dimension of v"},
    {"problem.softmax_scale", "scale"},
    {"problem.softcap", "softcap"},
    {"problem.window_left", "window[0]"},
    {"problem.window_right", "window[1]"},
    {"problem.bias_dtype", "bias.dtype"},
    {"problem.bias", "bias"},
    {"problem.q", "q"},
    {"problem.k", "k"},
    {"problem.v", "v"},
    {"problem.o", "out"},
    {"problem.lse", "lse"},
    {"problem.o_a", "o_a"},
    {"problem.o_b", "o_b"},
    {"problem.lse_a", "lse_a"},
    {"problem.lse_b", "lse_b"},
    {"problem.total_q", "the rows of q"},
    {"problem.total_kv", "the rows of k"},
    {"problem.page_size", "the page size of k"},
    {"problem.page_count", "the pages of k"},
    {"problem.block_table_stride", "block_table"},
    {"options.device_kind", "the device of q"},
    {"options.device_index", "the device of q"},
    {"options.kv_splits", "num_splits"},
    {"options.threads", "the number of threads"},
    {"args.q", "q"},
    {"args.k", "k"},
    {"args.v", "v"},
    {"args.o", "out"},
    {"args.lse", "lse"},
    {"args.bias", "bias"},
    {"args.sinks", "sinks"},
    {"args.cu_q", "cu_q"},
    {"args.cu_kv", "cu_kv"},
    {"args.kv_lengths", "kv_lengths"},
    {"args.block_table", "block_table"},
};

}  // namespace

bool fail(Failure& failure, FailureKind kind, std::string message) {
  failure.kind = kind;
  failure.message = std::move(message);
  return false;
}

bool fail_value(Failure& failure, std::string message) {
  return fail(failure, FailureKind::kValue, std::move(message));
}

bool fail_in_library(Failure& failure, const fms_error& error) {
  const std::string_view argument = error.argument;
  const auto* name = std::find_if(std::begin(kPythonNames), std::end(kPythonNames), [&](const NameInPython& candidate) {
    const size_t length = candidate.library.size();  // "problem.k.seq" is about "problem.k"
    return argument.substr(0, length) == candidate.library &&
           (argument.size() == length || argument[length] == '.' || argument[length] == '[');
  });
  std::string message = error.message;
  if (name != std::end(kPythonNames)) {
    const bool starts_with_it = message.compare(0, name->library.size(), name->library) == 0;
    message = name->python + (starts_with_it ? message.substr(name->library.size()) : ": " + message);
  }
  switch (error.code) {
    case FMS_INVALID_ARGUMENT:
      return fail(failure, FailureKind::kValue, std::move(message));
    case FMS_NOT_SUPPORTED:
      return fail(failure, FailureKind::kNotSupported, std::move(message));
    case FMS_OUT_OF_MEMORY:
      return fail(failure, FailureKind::kMemory, std::move(message));
    default:
      return fail(failure, FailureKind::kRuntime, std::move(message));
  }
}
}  // namespace flashmoe::python
