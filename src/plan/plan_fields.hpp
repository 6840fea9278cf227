// Every field of a plan and of the problem inside it, by name: what is printed, and what is compared, is this list. It
// covers the structs to the last byte, or it does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

enum class FieldKind : uint8_t {
  u32,
  i32,
  u64,
  i64,
  f32,
  hash,  // u64, in hexadecimal
  device_kind,
  cpu_isa,
  family,
  pack,
  dtype,
  features,
  strides,       // fms_strides
  bias_strides,  // fms_bias_strides
  problem        // problem_fields
};

struct Field {
  const char* name;
  std::size_t offset;
  FieldKind kind;
};

constexpr std::size_t field_bytes(FieldKind kind) {
  switch (kind) {
    case FieldKind::u64:
    case FieldKind::i64:
    case FieldKind::hash:
      return 8;
    case FieldKind::strides:
      return sizeof(fms_strides);
    case FieldKind::bias_strides:
      return sizeof(fms_bias_strides);
    case FieldKind::problem:
      return sizeof(fms_attention_problem);
    default:
      return 4;
  }
}

constexpr bool covers(std::span<const Field> fields, std::size_t struct_bytes) {
  std::size_t end = 0;
  for (const Field& field : fields) {
    if (field.offset != end) return false;
    end += field_bytes(field.kind);
  }
  return end == struct_bytes;
}

#define FMS_FIELD(type, name, kind)              \
  Field {                                        \
#name, offsetof(type, name), FieldKind::kind \
  }
#define FMS_PROBLEM_FIELD(name, kind) FMS_FIELD(fms_attention_problem, name, kind)
#define FMS_PLAN_FIELD(name, kind) FMS_FIELD(fms_attention_plan, name, kind)

inline constexpr std::array problem_fields = {
    FMS_PROBLEM_FIELD(struct_size, u32),   FMS_PROBLEM_FIELD(dtype, dtype),
    FMS_PROBLEM_FIELD(features, features), FMS_PROBLEM_FIELD(bias_dtype, dtype),
    FMS_PROBLEM_FIELD(bias2_dtype, dtype), FMS_PROBLEM_FIELD(kv_dtype, i32),
    FMS_PROBLEM_FIELD(batch, i64),         FMS_PROBLEM_FIELD(q_heads, i64),
    FMS_PROBLEM_FIELD(kv_heads, i64),      FMS_PROBLEM_FIELD(q_len, i64),
    FMS_PROBLEM_FIELD(kv_len, i64),        FMS_PROBLEM_FIELD(head_dim, i64),
    FMS_PROBLEM_FIELD(value_dim, i64),     FMS_PROBLEM_FIELD(q, strides),
    FMS_PROBLEM_FIELD(k, strides),         FMS_PROBLEM_FIELD(v, strides),
    FMS_PROBLEM_FIELD(o, strides),         FMS_PROBLEM_FIELD(lse, strides),
    FMS_PROBLEM_FIELD(softmax_scale, f32), FMS_PROBLEM_FIELD(softcap, f32),
    FMS_PROBLEM_FIELD(window_left, i64),   FMS_PROBLEM_FIELD(window_right, i64),
    FMS_PROBLEM_FIELD(bias, bias_strides), FMS_PROBLEM_FIELD(bias2, bias_strides),
    FMS_PROBLEM_FIELD(mask, bias_strides), FMS_PROBLEM_FIELD(total_q, i64),
    FMS_PROBLEM_FIELD(total_kv, i64),      FMS_PROBLEM_FIELD(page_size, i64),
    FMS_PROBLEM_FIELD(page_count, i64),    FMS_PROBLEM_FIELD(block_table_stride, i64),
};
static_assert(covers(problem_fields, sizeof(fms_attention_problem)));

inline constexpr std::array plan_fields = {
    FMS_PLAN_FIELD(struct_size, u32),     FMS_PLAN_FIELD(version, u32),
    FMS_PLAN_FIELD(fingerprint, hash),    FMS_PLAN_FIELD(device_kind, device_kind),
    FMS_PLAN_FIELD(cpu_isa, cpu_isa),     FMS_PLAN_FIELD(family, family),
    FMS_PLAN_FIELD(pack, pack),           FMS_PLAN_FIELD(threads, i32),
    FMS_PLAN_FIELD(kv_splits, i32),       FMS_PLAN_FIELD(q_tile, i32),
    FMS_PLAN_FIELD(kv_tile, i32),         FMS_PLAN_FIELD(instance, i32),
    FMS_PLAN_FIELD(kernel_head_dim, i32), FMS_PLAN_FIELD(sm_count, i32),
    FMS_PLAN_FIELD(ctas_per_sm, i32),     FMS_PLAN_FIELD(work_items, i64),
    FMS_PLAN_FIELD(workspace_bytes, u64), FMS_PLAN_FIELD(thread_bytes, u64),
    FMS_PLAN_FIELD(problem, problem),
};
static_assert(covers(plan_fields, sizeof(fms_attention_plan)));

#undef FMS_PLAN_FIELD
#undef FMS_PROBLEM_FIELD
#undef FMS_FIELD

// The bytes of a field as a number, whatever they hold.
template <class T>
T field_value(const void* base, const Field& field) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + field.offset, sizeof value);
  return value;
}

}  // namespace flashmoe::plan
