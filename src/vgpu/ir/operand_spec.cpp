#include "vgpu/ir/operand_spec.hpp"

namespace flashmoe::vgpu::ir {
namespace {

Field field_of(std::string_view name) {
  constexpr std::pair<std::string_view, Field> fields[] = {
      {"d", Field::d},       {"e", Field::e},           {"a", Field::a},           {"b", Field::b},
      {"c", Field::c},       {"m", Field::m},           {"imm", Field::imm},       {"size", Field::size},
      {"list", Field::list}, {"target", Field::target}, {"policy", Field::policy},
  };
  for (const auto& [text, field] : fields)
    if (text == name) return field;
  return Field::a;
}

void read_type(std::string_view word, OperandSpec& spec) {
  if (word.ends_with('+')) {
    spec.may_be_wider = true;
    word.remove_suffix(1);
  }
  using Kind = OperandSpec::Kind;
  using Of = OperandSpec::Of;
  if (word == "T") {
    spec.of = Of::last_type;
  } else if (word == "U") {
    spec.of = Of::first_type;
  } else if (word == "W") {
    spec.of = Of::twice_last_type;
  } else if (word == "mask") {
    spec.named = Type::b32;
  } else if (word == "pred") {
    spec.kind = Kind::predicate;
    spec.named = Type::pred;
  } else if (word == "addr") {
    spec.kind = Kind::address;
  } else if (word == "label") {
    spec.kind = Kind::label;
  } else if (word == "targets") {
    spec.kind = Kind::targets;
  } else if (word == "immediate") {
    spec.kind = Kind::immediate;
  } else if (word == "carry") {
    spec.kind = Kind::carry;
  } else if (word == "any") {
    spec.kind = Kind::any;
  } else {
    spec.named = type_of(word);
  }
}

OperandSpec parse_one(std::string_view word) {
  OperandSpec spec;
  if (word == "call") {
    spec.kind = OperandSpec::Kind::call;
    return spec;
  }
  if (word.ends_with('?')) {
    spec.is_optional = true;
    word.remove_suffix(1);
  }
  if (const std::size_t bar = word.find('|'); bar != std::string_view::npos) {
    spec.has_second = true;
    word = word.substr(0, bar);
  }
  const std::size_t colon = word.find(':');
  spec.field = field_of(word.substr(0, colon));
  word = word.substr(colon + 1);
  if (const std::size_t second = word.find(':'); second != std::string_view::npos) {
    const std::string_view shape = word.substr(0, second);
    spec.shape = shape == "pack" ? OperandSpec::Shape::pack
                 : shape == "v"  ? OperandSpec::Shape::form_vector
                                 : OperandSpec::Shape::fixed_vector;
    if (spec.shape == OperandSpec::Shape::fixed_vector) spec.count = shape[1] - '0';
    word = word.substr(second + 1);
  }
  read_type(word, spec);
  return spec;
}

}  // namespace

Type OperandSpec::type(const Form& form) const {
  switch (of) {
    case Of::last_type:
      return form.last_type();
    case Of::first_type:
      return form.type(0);
    case Of::twice_last_type:
      switch (form.last_type()) {
        case Type::u16:
          return Type::u32;
        case Type::s16:
          return Type::s32;
        case Type::u32:
          return Type::u64;
        default:
          return Type::s64;
      }
    case Of::named:
      break;
  }
  return named;
}

std::vector<OperandSpec> parse_operand_specs(std::string_view operands) {
  std::vector<OperandSpec> specs;
  while (!operands.empty()) {
    const std::size_t space = operands.find(' ');
    specs.push_back(parse_one(operands.substr(0, space)));
    operands = space == std::string_view::npos ? std::string_view{} : operands.substr(space + 1);
  }
  return specs;
}

}  // namespace flashmoe::vgpu::ir
