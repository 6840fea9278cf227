#include "vgpu/ptx/declarations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "vgpu/ptx/expression.hpp"
#include "vgpu/ptx/operands.hpp"

namespace flashmoe::vgpu::ptx {
namespace {

constexpr int kMostRegisters = 1 << 24;     // of one name<n>
constexpr int kLargestAlignment = 1 << 20;  // bytes
constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kMostPadding = 1 << 16;  // elements that an inner pair of braces may leave out

constexpr std::array<std::string_view, 6> kSpaces{".reg", ".param", ".shared", ".global", ".const", ".local"};
constexpr std::array<std::string_view, 40> kTypes{
    ".b8",   ".b16",  ".b32",  ".b64",    ".b128",   ".u8",     ".u16",    ".u32",     ".u64",        ".s8",
    ".s16",  ".s32",  ".s64",  ".f16",    ".f32",    ".f64",    ".f16x2",  ".bf16",    ".bf16x2",     ".tf32",
    ".pred", ".e4m3", ".e5m2", ".e4m3x2", ".e5m2x2", ".u16x2",  ".s16x2",  ".texref",  ".samplerref", ".surfref",
    ".e2m1", ".e3m2", ".e2m3", ".ue8m0",  ".e2m1x2", ".e3m2x2", ".e2m3x2", ".ue8m0x2", ".e2m1x4",     ".f32x2"};

bool is_type(const Token& token) {
  return token.kind == Token::Kind::dotted && std::find(kTypes.begin(), kTypes.end(), token.text) != kTypes.end();
}

std::string without_dot(const Token& token) {
  return std::string(token.text.substr(1));
}

int parse_align(Cursor& cursor) {
  const Token token = cursor.peek();
  const auto bytes = static_cast<int>(cursor.number("an alignment in bytes", kLargestAlignment));
  if (!cursor.failed() && (bytes == 0 || (bytes & (bytes - 1)) != 0))
    cursor.fail(token.at, fmt::format("an alignment of {} bytes is not a power of two", bytes));
  return bytes;
}

// .ptr [.space] [.align n] after the type of a kernel's parameter (PTX ISA 5.1.6.2)
void parse_pointer(Cursor& cursor, Variable& variable) {
  variable.is_pointer = true;
  for (const std::string_view space : {".global", ".const", ".shared", ".local"})
    if (cursor.accept(space)) variable.pointer_space = space.substr(1);
  if (cursor.accept(".align")) variable.pointer_align = parse_align(cursor);
}

// What stands between the space and the first name.
Variable parse_common_part(Cursor& cursor) {
  Variable variable;
  variable.at = cursor.peek().at;
  if (!begins_variable(cursor.peek())) {
    cursor.fail_expected("a state space (.reg, .param, .shared, .global, .const or .local)");
    return variable;
  }
  variable.space = without_dot(cursor.take());
  while (!is_type(cursor.peek()) && !cursor.at_end()) {
    if (cursor.accept(".align")) {
      variable.align = parse_align(cursor);
    } else if (cursor.is(".attribute")) {
      for (std::string& attribute : parse_attributes(cursor)) variable.attributes.push_back(std::move(attribute));
    } else if (cursor.accept(".v2")) {
      variable.vector = 2;
    } else if (cursor.accept(".v4")) {
      variable.vector = 4;
    } else if (cursor.accept(".v8")) {
      variable.vector = 8;
    } else {
      cursor.fail_expected("a type such as .b32");
    }
  }
  if (cursor.at_end()) {
    cursor.fail_expected("a type such as .b32");
    return variable;
  }
  variable.type = without_dot(cursor.take());
  if (variable.space == "param" && cursor.accept(".ptr")) parse_pointer(cursor, variable);
  return variable;
}

// %r<10>, name[64], name[], name[2][3]
void parse_shape(Cursor& cursor, Variable& variable) {
  if (cursor.accept("<")) {
    variable.range = static_cast<int>(cursor.number("the number of registers", kMostRegisters));
    cursor.expect(">");
  }
  while (cursor.accept("[")) {
    if (cursor.accept("]")) {
      variable.dims.push_back(-1);
      continue;
    }
    const Token first = cursor.peek();
    const Constant size = parse_constant(cursor);
    cursor.expect("]");
    if (size.kind != Constant::Kind::integer || size.bits > std::numeric_limits<std::int64_t>::max())
      cursor.fail(first.at, "the size of an array has to be an integer that is not negative");
    if (variable.dims.size() == kMostDimensions)
      cursor.fail(first.at, fmt::format("an array has more than {} dimensions", kMostDimensions));
    variable.dims.push_back(static_cast<std::int64_t>(size.bits));
  }
}

// One character of a string with C's escapes; takes what it used off `text`.
std::uint8_t next_byte(std::string_view& text) {
  const auto take = [&] {
    const char c = text.front();
    text.remove_prefix(1);
    return c;
  };
  const char c = take();
  if (c != '\\' || text.empty()) return static_cast<std::uint8_t>(c);
  const auto digits = [&](unsigned base, std::size_t most) {
    unsigned value = 0;
    for (std::size_t taken = 0; taken < most && !text.empty(); ++taken) {
      const char d = text.front();
      const unsigned digit = d >= '0' && d <= '9'   ? static_cast<unsigned>(d - '0')
                             : d >= 'a' && d <= 'f' ? static_cast<unsigned>(d - 'a' + 10)
                             : d >= 'A' && d <= 'F' ? static_cast<unsigned>(d - 'A' + 10)
                                                    : base;
      if (digit >= base) break;
      value = value * base + digit;
      text.remove_prefix(1);
    }
    return static_cast<std::uint8_t>(value);
  };
  if (text.front() >= '0' && text.front() <= '7') return digits(8, 3);
  switch (const char escape = take(); escape) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'x':
      return digits(16, 2);
    default:
      return static_cast<std::uint8_t>(escape);
  }
}

class InitialiserParser {
 public:
  InitialiserParser(Cursor& cursor, Variable& variable) : cursor_(cursor), variable_(variable) {}

  void parse() {
    if (cursor_.is("{")) {
      braces(0);
    } else if (cursor_.is(Token::Kind::string)) {
      string();
    } else {
      variable_.initial.push_back(parse_initial_value(cursor_));
    }
    for (const Operand& value : variable_.initial) variable_.generic_initial |= value.generic;
  }

 private:
  // Elements below one element of dimension `level`, or 0 where the array does not say.
  [[nodiscard]] std::uint64_t elements_below(std::size_t level) const {
    std::uint64_t product = level < variable_.dims.size() ? 1 : 0;
    for (std::size_t dim = level; dim < variable_.dims.size(); ++dim) {
      const std::int64_t size = variable_.dims[dim];
      if (size <= 0 || product > std::numeric_limits<std::uint32_t>::max()) return 0;
      product *= static_cast<std::uint64_t>(size);
    }
    return product;
  }

  void braces(std::size_t level) {
    const Token open = cursor_.take();
    if (level >= std::max<std::size_t>(variable_.dims.size(), 1)) {
      cursor_.fail(open.at, "an initialiser has more levels of braces than its array has dimensions");
      return;
    }
    const std::size_t start = variable_.initial.size();
    if (!cursor_.is("}")) {
      do {
        if (cursor_.is("{")) {
          braces(level + 1);
        } else {
          variable_.initial.push_back(parse_initial_value(cursor_));
        }
      } while (cursor_.accept(","));
    }
    cursor_.expect("}");
    if (level > 0) pad(start, elements_below(level), open.at);
  }

  // An inner pair of braces stands for a whole row: what it leaves out is zero, so that the flat list keeps its places.
  void pad(std::size_t start, std::uint64_t elements, Location at) {
    const std::size_t written = variable_.initial.size() - start;
    if (elements == 0 || written > elements) {
      cursor_.fail(at, fmt::format("{} values do not fill a row of the array", written));
      return;
    }
    padding_ += elements - written;
    if (padding_ > kMostPadding) {
      cursor_.fail(at, fmt::format("an initialiser leaves out more than {} values", kMostPadding));
      return;
    }
    for (std::uint64_t missing = elements - written; missing > 0; --missing)
      variable_.initial.push_back(integer_operand(0, at));
  }

  // Bytes of a string; the terminating zero only where the array takes its size from them.
  void string() {
    const Location at = cursor_.peek().at;
    std::string_view text = cursor_.quoted("a string");
    while (!text.empty()) variable_.initial.push_back(integer_operand(next_byte(text), at));
    if (variable_.dims.size() == 1 && variable_.dims[0] == -1) variable_.initial.push_back(integer_operand(0, at));
  }

  Cursor& cursor_;
  Variable& variable_;
  std::uint64_t padding_ = 0;
};

}  // namespace

Linkage parse_linkage(Cursor& cursor) {
  Linkage linkage;
  for (;;) {
    if (cursor.accept(".extern")) {
      linkage.is_extern = true;
    } else if (cursor.accept(".visible")) {
      linkage.is_visible = true;
    } else if (cursor.accept(".weak")) {
      linkage.is_weak = true;
    } else if (cursor.accept(".common")) {
      linkage.is_common = true;
    } else {
      return linkage;
    }
  }
}

bool begins_variable(const Token& token) {
  return token.kind == Token::Kind::dotted && std::find(kSpaces.begin(), kSpaces.end(), token.text) != kSpaces.end();
}

std::vector<std::string> parse_attributes(Cursor& cursor) {
  std::vector<std::string> attributes;
  cursor.expect(".attribute");
  cursor.expect("(");
  do {
    if (cursor.accept(".managed")) {
      attributes.emplace_back("managed");
    } else if (cursor.accept(".unified")) {
      // .unified(uuid1, uuid2): two 64-bit halves (PTX ISA 5.4.8)
      cursor.expect("(");
      const Constant high = parse_constant(cursor);
      cursor.expect(",");
      const Constant low = parse_constant(cursor);
      cursor.expect(")");
      attributes.push_back(fmt::format("unified({}, {})", high.text, low.text));
    } else {
      cursor.fail_expected("an attribute (.managed or .unified)");
    }
  } while (cursor.accept(","));
  cursor.expect(")");
  return attributes;
}

void parse_variables(Cursor& cursor, const Linkage& linkage, std::vector<Variable>& variables) {
  Variable common = parse_common_part(cursor);
  common.is_extern = linkage.is_extern;
  common.is_visible = linkage.is_visible;
  common.is_weak = linkage.is_weak;
  common.is_common = linkage.is_common;
  do {
    Variable variable = common;
    variable.at = cursor.peek().at;
    variable.name = cursor.identifier("the name of a variable");
    parse_shape(cursor, variable);
    if (cursor.accept("=")) InitialiserParser(cursor, variable).parse();
    variables.push_back(std::move(variable));
  } while (cursor.accept(","));
  if (!cursor.is(";") && !cursor.failed()) cursor.fail_expected("',', '=' or ';' after a variable");
  cursor.expect(";");
}

std::vector<Variable> parse_parameters(Cursor& cursor, bool prototype) {
  std::vector<Variable> parameters;
  cursor.expect("(");
  if (cursor.accept(")")) return parameters;
  do {
    Variable parameter = parse_common_part(cursor);
    parameter.at = cursor.peek().at;
    if (prototype && !cursor.is(Token::Kind::identifier)) {
      parameter.name = "_";
      cursor.accept("_");
    } else {
      parameter.name = cursor.identifier("the name of a parameter");
    }
    parse_shape(cursor, parameter);
    parameters.push_back(std::move(parameter));
  } while (cursor.accept(","));
  cursor.expect(")");
  return parameters;
}

}  // namespace flashmoe::vgpu::ptx
