// OpRow::operands, taken apart.
#pragma once

#include <string_view>
#include <vector>

#include "vgpu/ir/form.hpp"

namespace flashmoe::vgpu::ir {

enum class Field : std::uint8_t { d, e, a, b, c, m, imm, size, target, list, policy };

struct OperandSpec {
  enum class Kind : std::uint8_t { typed, any, predicate, address, label, targets, immediate, carry, call };
  enum class Shape : std::uint8_t {
    scalar,
    form_vector,  // as many as .v2, .v4 say; a scalar without
    fixed_vector,
    pack,  // a scalar or a vector of as many bits
  };
  enum class Of : std::uint8_t { last_type, first_type, twice_last_type, named };
  Field field = Field::a;
  Kind kind = Kind::typed;
  Shape shape = Shape::scalar;
  Of of = Of::named;
  Type named = Type::none;
  int count = 1;  // fixed_vector
  bool may_be_wider = false;
  bool is_optional = false;
  bool has_second = false;  // |e:pred

  [[nodiscard]] Type type(const Form& form) const;
  [[nodiscard]] bool is_written() const { return field == Field::d || (field == Field::e && kind == Kind::carry); }
};

[[nodiscard]] std::vector<OperandSpec> parse_operand_specs(std::string_view operands);

}  // namespace flashmoe::vgpu::ir
