#include "api/run_checks.hpp"

#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "plan/index_arrays.hpp"
#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::api {
namespace {

using plan::element_bytes;
using plan::has;

fms_status check_pointer(const char* name, const void* pointer, int64_t alignment, fms_error* error) {
  if (pointer == nullptr) {
    return fail(error, FMS_INVALID_ARGUMENT, name, "%s is NULL; allowed: the tensor this problem asks for", name);
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(alignment) == 0) return FMS_OK;
  return fail(error, FMS_INVALID_ARGUMENT, name,
              "%s is %p; allowed: an address divisible by its element size, %" PRId64, name, pointer, alignment);
}

fms_status check_pointers(const fms_attention_problem& p, const fms_attention_args& args, fms_error* error) {
  const int64_t bytes = element_bytes(p.dtype);
  if (auto s = check_pointer("args.q", args.q, bytes, error)) return s;
  if (auto s = check_pointer("args.o", args.o, element_bytes(plan::output_dtype(p)), error)) return s;
  const bool has_keys = p.kv_len > 0;
  if (has_keys) {
    if (auto s = check_pointer("args.k", args.k, plan::kv_element_bytes(p), error)) return s;
    if (auto s = check_pointer("args.v", args.v, plan::kv_element_bytes(p), error)) return s;
  }
  const struct {
    bool needed;
    const char* name;
    const void* pointer;
    int64_t alignment;
  } optional[] = {{has(p, FMS_LSE), "args.lse", args.lse, 4},
                  {has(p, FMS_BIAS) && has_keys, "args.bias", args.bias, element_bytes(p.bias_dtype)},
                  {has(p, FMS_BIAS2) && has_keys, "args.bias2", args.bias2, element_bytes(p.bias2_dtype)},
                  {has(p, FMS_MASK) && has_keys, "args.mask", args.mask, 1},
                  {has(p, FMS_KV_SCALES), "args.k_scales", args.k_scales, 4},
                  {has(p, FMS_KV_SCALES), "args.v_scales", args.v_scales, 4},
                  {has(p, FMS_SINKS), "args.sinks", args.sinks, 4},
                  {has(p, FMS_RAGGED_Q), "args.cu_q", args.cu_q, 4},
                  {has(p, FMS_RAGGED_KV), "args.cu_kv", args.cu_kv, 4},
                  {has(p, FMS_KV_LENGTHS), "args.kv_lengths", args.kv_lengths, 4},
                  {has(p, FMS_KV_STARTS), "args.kv_starts", args.kv_starts, 4},
                  {has(p, FMS_Q_LENGTHS), "args.q_lengths", args.q_lengths, 4},
                  {has(p, FMS_PAGED_KV) && has_keys, "args.block_table", args.block_table, 4}};
  for (const auto& pointer : optional) {
    if (!pointer.needed) continue;
    if (auto s = check_pointer(pointer.name, pointer.pointer, pointer.alignment, error)) return s;
  }
  return FMS_OK;
}

fms_status fail_at(const char* array, int64_t index, int64_t value, int64_t low, int64_t high, fms_error* error) {
  char argument[48];
  std::snprintf(argument, sizeof argument, "%s[%" PRId64 "]", array, index);
  return fail(error, FMS_INVALID_ARGUMENT, argument, "%s is %" PRId64 "; allowed: %" PRId64 " to %" PRId64, argument,
              value, low, high);
}

// Offsets must not decrease, stay inside the packed tensor and hold no sequence longer than the plan was made for.
fms_status check_offsets(const char* name, const int32_t* offsets, int64_t batch, int64_t longest, int64_t total,
                         fms_error* error) {
  int64_t low = plan::read_index(offsets);
  if (low < 0 || low > total) return fail_at(name, 0, low, 0, total, error);
  for (int64_t b = 1; b <= batch; ++b) {
    const int64_t high = low + longest < total ? low + longest : total, offset = plan::read_index(offsets + b);
    if (offset < low || offset > high) return fail_at(name, b, offset, low, high, error);
    low = offset;
  }
  return FMS_OK;
}

// Each is a factor of scores or results. Of the former the scale is one too, and both together have its bounds.
fms_status check_scales(const char* name, const float* scales, int64_t count, float beside, fms_error* error) {
  constexpr float most = 1e30F;
  for (int64_t g = 0; g < count; ++g) {
    const float together = std::fabs(scales[g] * beside);
    const bool fits = scales[g] > 0 && scales[g] <= most && together <= most && (together > 0 || beside == 0);
    if (fits) continue;
    char argument[48];
    std::snprintf(argument, sizeof argument, "%s[%" PRId64 "]", name, g);
    return fail(error, FMS_INVALID_ARGUMENT, argument,
                "%s is %g; allowed: above 0 and at most 1e30, times softmax_scale as well", argument,
                static_cast<double>(scales[g]));
  }
  return FMS_OK;
}

fms_status check_lengths(const char* name, const int32_t* lengths, int64_t batch, int64_t longest, fms_error* error) {
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = plan::read_index(lengths + b);
    if (length < 0 || length > longest) return fail_at(name, b, length, 0, longest, error);
  }
  return FMS_OK;
}

// What kv_rows gives, without its care for a pool of no pages: an entry of the block table is then a mistake.
int64_t keys_of(const fms_attention_problem& p, const fms_attention_args& args, int64_t b) {
  return has(p, FMS_KV_LENGTHS) ? plan::between(plan::read_index(args.kv_lengths + b), 0, p.kv_len) : p.kv_len;
}

fms_status check_pages(const fms_attention_problem& p, const fms_attention_args& args, fms_error* error) {
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t pages = (keys_of(p, args, b) + p.page_size - 1) / p.page_size;
    for (int64_t i = 0; i < pages; ++i) {
      const int64_t index = b * p.block_table_stride + i, page = plan::read_index(args.block_table + index);
      if (page < 0 || page >= p.page_count) {
        return fail_at("args.block_table", index, page, 0, p.page_count - 1, error);
      }
    }
  }
  return FMS_OK;
}

}  // namespace

fms_status check_plan_here(const fms_attention_plan& plan, fms_device_kind context_kind, fms_cpu_isa context_isa,
                           fms_error* error) {
  if (auto s = plan::check_plan(plan, error)) return s;
  if (plan.device_kind != context_kind) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.device_kind", "plan.device_kind is %d; allowed in this context: %d",
                static_cast<int>(plan.device_kind), static_cast<int>(context_kind));
  }
  if (context_kind == FMS_DEVICE_CPU && plan.cpu_isa > context_isa) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.cpu_isa",
                "plan.cpu_isa is %d, above this context's %d; make the plan with the context that runs it",
                static_cast<int>(plan.cpu_isa), static_cast<int>(context_isa));
  }
  return FMS_OK;
}

fms_status check_args(const fms_attention_plan& plan, const fms_attention_args& args, fms_error* error) {
  if (args.struct_size != sizeof args) {
    return fail(error, FMS_INVALID_ARGUMENT, "args.struct_size", "args.struct_size is %u; allowed: %zu",
                args.struct_size, sizeof args);
  }
  constexpr uint32_t known = FMS_WORKSPACE_READY;
  if ((args.flags & ~known) != 0) {
    return fail(error, FMS_INVALID_ARGUMENT, "args.flags",
                "args.flags has unknown bits 0x%x; allowed: the fms_run_flag bits, 0x%x together", args.flags & ~known,
                known);
  }
  const fms_attention_problem& p = plan.problem;
  if (plan::is_empty(p)) return FMS_OK;
  if (auto s = check_pointers(p, args, error)) return s;
  if (plan.device_kind == FMS_DEVICE_CUDA) return FMS_OK;  // index arrays are in the device's memory
  if (has(p, FMS_RAGGED_Q)) {
    if (auto s = check_offsets("args.cu_q", args.cu_q, p.batch, p.q_len, p.total_q, error)) return s;
  }
  if (has(p, FMS_RAGGED_KV)) {
    if (auto s = check_offsets("args.cu_kv", args.cu_kv, p.batch, p.kv_len, p.total_kv, error)) return s;
  }
  if (has(p, FMS_KV_LENGTHS)) {
    if (auto s = check_lengths("args.kv_lengths", args.kv_lengths, p.batch, p.kv_len, error)) return s;
  }
  if (has(p, FMS_KV_STARTS)) {
    if (auto s = check_lengths("args.kv_starts", args.kv_starts, p.batch, p.kv_len, error)) return s;
  }
  if (has(p, FMS_KV_SCALES)) {
    if (auto s = check_scales("args.k_scales", args.k_scales, p.kv_heads, p.softmax_scale, error)) return s;
    if (auto s = check_scales("args.v_scales", args.v_scales, p.kv_heads, 1.0F, error)) return s;
  }
  if (has(p, FMS_Q_LENGTHS)) {
    if (auto s = check_lengths("args.q_lengths", args.q_lengths, p.batch, p.q_len, error)) return s;
  }
  return has(p, FMS_PAGED_KV) && p.kv_len > 0 ? check_pages(p, args, error) : FMS_OK;
}

fms_status check_workspace(const fms_attention_plan& plan, const void* workspace, std::size_t bytes, fms_error* error) {
  if (plan.workspace_bytes == 0) return FMS_OK;
  if (workspace == nullptr || bytes < plan.workspace_bytes) {
    return fail(error, FMS_INVALID_ARGUMENT, "workspace",
                "workspace is %p with %zu bytes; allowed: at least plan.workspace_bytes, %" PRIu64, workspace, bytes,
                plan.workspace_bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(workspace) % FMS_WORKSPACE_ALIGNMENT != 0) {
    return fail(error, FMS_INVALID_ARGUMENT, "workspace", "workspace is %p; allowed: an address divisible by %d",
                workspace, FMS_WORKSPACE_ALIGNMENT);
  }
  return FMS_OK;
}

fms_status check_merge_args(const fms_merge_problem& p, const plan::MergeArgs& args, fms_error* error) {
  const int64_t bytes = element_bytes(p.dtype);
  const struct {
    const char* name;
    const void* pointer;
    int64_t alignment;
  } pointers[] = {{"o_a", args.o_a, bytes}, {"lse_a", args.lse_a, 4}, {"o_b", args.o_b, bytes},
                  {"lse_b", args.lse_b, 4}, {"o", args.o, bytes},     {"lse", args.lse, 4}};
  for (const auto& [name, pointer, alignment] : pointers) {
    if (auto s = check_pointer(name, pointer, alignment, error)) return s;
  }
  return FMS_OK;
}

}  // namespace flashmoe::api
