// PTX as written: what the parser leaves and the printer prints. Nothing here knows what an instruction means; names
// are resolved and forms are checked by ir/. Every node keeps the place it stands at, in the PTX and in the CUDA
// source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace flashmoe::vgpu::ptx {

struct Location {
  int line = 0;    // 1-based, in the PTX text
  int column = 0;  // 1-based
};

// `.loc file line column` as the compiler left it; `inlined_at` holds the call site when the code was inlined.
struct SourceLocation {
  int file = 0;  // index of `.file`; 0: unknown
  int line = 0;
  int column = 0;
  std::string function{};  // label operand of `function_name`, resolved to the name where .debug_str holds it
  std::shared_ptr<const SourceLocation> inlined_at{};
};

// A fundamental type without its dot ("f32", "b64", "pred", "f16x2").
using TypeName = std::string;

struct Operand {
  enum class Kind {
    identifier,      // register, special register (%tid.x), variable, label, function; `offset` holds sym+4
    integer,         // 64 bits, two's complement; `text` keeps how it was written
    floating,        // 0f.., 0d.. or a decimal literal: the bits of a double
    single,          // 0f3F800000: the 32 bits of a float, in `bits`
    address,         // [base + offset]; base may be empty; [map, {x, y}] keeps the rest in `parts`
    vector,          // {a, b, ...}
    predicate_pair,  // p|q as a destination
    list,            // ( ... ) of a call
    placeholder,     // _
  };
  Kind kind = Kind::identifier;
  std::string name{};            // identifier, base of an address
  bool negated = false;          // !p
  bool minus = false;            // -%r
  bool generic = false;          // generic(symbol) in an initialiser
  std::uint64_t bits = 0;        // integer, floating, single; mask of 0xFF00(symbol) in an initialiser
  std::int64_t offset = 0;       // address, identifier
  std::vector<Operand> parts{};  // vector, predicate_pair, list, address with coordinates
  std::string text{};            // literals as written
  Location at{};
};

struct Guard {
  std::string predicate{};
  bool negated = false;
};

// "ld.global.nc.v4.u32", behind what is there.
void append_form(std::string& to, std::string_view opcode, const std::vector<std::string>& modifiers);

struct Instruction {
  std::optional<Guard> guard{};
  std::string opcode{};                  // "ld"
  std::vector<std::string> modifiers{};  // {"global", "nc", "v4", "u32"}; "L2::128B" keeps its colons
  std::vector<Operand> operands{};
  Location at{};
  int source = -1;  // index into Function::sources; -1: no .loc before it
  [[nodiscard]] std::string form() const;
};

struct Variable {
  std::string space{};  // "reg", "param", "shared", "global", "const", "local"
  TypeName type{};
  std::string name{};
  int vector = 1;                    // .v2, .v4
  int align = 0;                     // bytes; 0: natural
  std::vector<std::int64_t> dims{};  // [] is -1 (extern dynamic shared memory)
  int range = 0;                     // %r<10>: 10 registers %r0..%r9; 0: one name
  // Values of an initialised array, flattened; symbols and generic(sym) are identifiers.
  std::vector<Operand> initial{};
  bool generic_initial = false;  // generic(symbol) was written
  bool is_extern = false, is_visible = false, is_weak = false, is_common = false;
  bool is_pointer = false;                // .ptr on a kernel parameter
  std::string pointer_space{};            // "global" of .ptr .global; empty: generic
  int pointer_align = 0;                  // of what .ptr points at; 0: not said
  std::vector<std::string> attributes{};  // {"managed"} of .attribute(.managed)
  Location at{};
};

struct Label {
  std::string name{};
  Location at{};
};

// A table of labels or functions: name: .branchtargets a, b;  name: .calltargets f, g;  name: .callprototype ...;
struct TargetList {
  enum class Kind { branch, call, prototype };
  Kind kind = Kind::branch;
  std::string name{};
  std::vector<std::string> targets{};
  std::vector<Variable> returns{}, parameters{};  // prototype
  bool is_noreturn = false;                       // prototype
  Location at{};
};

struct Statement;
struct Block {
  std::vector<Statement> statements;  // without {}: Statement is not complete yet
};
struct Statement {
  std::variant<Instruction, Variable, Label, TargetList, Block> what{};
};

struct Function {
  std::string name{};
  bool is_entry = false;
  bool is_declaration = false;
  bool is_extern = false, is_visible = false, is_weak = false, is_noreturn = false;
  std::vector<Variable> returns{};
  std::vector<Variable> parameters{};
  // .maxntid .reqntid .minnctapersm .maxnreg .maxclusterrank ...: name without dot and its values
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> directives{};
  std::vector<std::string> pragmas{};
  std::vector<std::string> attributes{};  // as of a variable
  Block body{};
  std::vector<SourceLocation> sources{};  // every .loc in order; what Instruction::source points at
  Location at{};
};

struct File {
  int index = 0;
  std::string path{};
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::vector<std::string> targets{};  // {"sm_89"}, {"sm_90a", "debug"}
  int address_size = 64;
  std::vector<File> files{};
  std::vector<Variable> variables{};                           // module scope: global, const, shared
  std::vector<Function> functions{};                           // declarations and definitions in order
  std::vector<std::pair<std::string, std::string>> aliases{};  // .alias name, function
  std::vector<std::string> pragmas{};
  std::string name{};  // what diagnostics call the text
};

}  // namespace flashmoe::vgpu::ptx
