// A plan as JSON: every field under its own name, enums as words.
#include <cinttypes>

#include "plan/plan_fields.hpp"
#include "plan/planner.hpp"
#include "plan/text.hpp"
#include "plan/words.hpp"

namespace flashmoe::plan {
namespace {

void add_features(uint32_t features, Text& text) {
  text.add("[");
  const char* separator = "";
  for (const FeatureName& feature : feature_names) {
    if ((features & static_cast<uint32_t>(feature.bit)) == 0) continue;
    text.add("%s\"%s\"", separator, feature.name);
    separator = ", ";
  }
  text.add("]");
}

void add_fields(const void* base, std::span<const Field> fields, Text& text);

void add_value(const void* base, const Field& field, Text& text) {
  const auto word = [&](const auto& words) { text.add("\"%s\"", words[field_value<uint32_t>(base, field)]); };
  switch (field.kind) {
    case FieldKind::u32:
      return text.add("%" PRIu32, field_value<uint32_t>(base, field));
    case FieldKind::i32:
      return text.add("%" PRId32, field_value<int32_t>(base, field));
    case FieldKind::u64:
      return text.add("%" PRIu64, field_value<uint64_t>(base, field));
    case FieldKind::i64:
      return text.add("%" PRId64, field_value<int64_t>(base, field));
    case FieldKind::f32:
      return text.add_float(field_value<float>(base, field));
    case FieldKind::hash:
      return text.add("\"%016" PRIx64 "\"", field_value<uint64_t>(base, field));
    case FieldKind::device_kind:
      return word(device_kind_names);
    case FieldKind::cpu_isa:
      return word(cpu_isa_names);
    case FieldKind::family:
      return word(family_names);
    case FieldKind::pack:
      return word(pack_names);
    case FieldKind::dtype:
      return word(dtype_names);
    case FieldKind::features:
      return add_features(field_value<uint32_t>(base, field), text);
    case FieldKind::strides: {
      const auto s = field_value<fms_strides>(base, field);
      return text.add("{\"batch\": %" PRId64 ", \"head\": %" PRId64 ", \"seq\": %" PRId64 "}", s.batch, s.head, s.seq);
    }
    case FieldKind::bias_strides: {
      const auto s = field_value<fms_bias_strides>(base, field);
      return text.add("{\"batch\": %" PRId64 ", \"head\": %" PRId64 ", \"q\": %" PRId64 ", \"kv\": %" PRId64
                      ", \"group\": %" PRId64 "}",
                      s.batch, s.head, s.q, s.kv, s.group);
    }
    case FieldKind::problem:
      return add_fields(static_cast<const char*>(base) + field.offset, problem_fields, text);
  }
}

void add_fields(const void* base, std::span<const Field> fields, Text& text) {
  const char* separator = "{";
  for (const Field& field : fields) {
    text.add("%s\"%s\": ", separator, field.name);
    add_value(base, field, text);
    separator = ", ";
  }
  text.add("}");
}

}  // namespace

std::size_t to_json(const fms_attention_plan& plan, char* buffer, std::size_t capacity) {
  Text text(buffer, capacity);
  add_fields(&plan, plan_fields, text);
  return text.length();
}

}  // namespace flashmoe::plan
