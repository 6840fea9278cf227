// Constant expressions of PTX ISA 4.5: 64-bit integers, signed or unsigned, and doubles.
#pragma once

#include <cstdint>
#include <string>

#include "vgpu/ptx/cursor.hpp"

namespace flashmoe::vgpu::ptx {

struct Constant {
  enum class Kind { integer, floating, single };
  Kind kind = Kind::integer;
  std::uint64_t bits = 0;
  bool is_unsigned = false;
  std::string
      text{};  // as written for a literal with or without a minus, else in a form that reads back as the same value
};

enum class Extent {
  whole,  // anything up to ?:
  term,   // up to * / %: the summands of an address are read one by one
};

// Fails at the cursor if no constant expression stands there.
[[nodiscard]] Constant parse_constant(Cursor& cursor, Extent extent = Extent::whole);

// Can the token begin a constant expression? ('(' can, but means a list in a call; '-' and '!' can stand before a
// register.)
[[nodiscard]] bool begins_literal(const Token& token);

}  // namespace flashmoe::vgpu::ptx
