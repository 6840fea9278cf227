// The module, its functions and their statements (PTX ISA 4.3, 5 and 11). Operands, constants, variables and debug
// information have files of their own.
#include "vgpu/ptx/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "vgpu/ptx/cursor.hpp"
#include "vgpu/ptx/debug_info.hpp"
#include "vgpu/ptx/declarations.hpp"
#include "vgpu/ptx/operands.hpp"

namespace flashmoe::vgpu::ptx {
namespace {

constexpr int kDeepestScope = 64;  // nested { }; compilers leave 2

// Directives of a function that take integers (PTX ISA 11.2, 11.4); .noreturn and .pragma are apart.
constexpr std::array<std::string_view, 11> kTuning{
    ".maxntid",           ".reqntid",        ".minnctapersm",        ".maxnctapersm",
    ".maxnreg",           ".maxclusterrank", ".explicitcluster",     ".reqnctapercluster",
    ".blocksareclusters", ".abi_preserve",   ".abi_preserve_control"};

class Parser {
 public:
  Parser(std::string_view text, std::string name) : cursor_(text, name) { module_.name = std::move(name); }

  Result<Module> run() {
    version();
    while (!cursor_.at_end()) module_statement();
    if (cursor_.failed()) return cursor_.error();
    for (std::size_t i = 0; i < module_.functions.size(); ++i)
      module_.functions[i].sources = debug_.resolve(raw_locations_[i]);
    return std::move(module_);
  }

 private:
  void version() {
    cursor_.expect(".version");
    const Token token = cursor_.take();
    const char* const end = token.text.data() + token.text.size();
    const auto major = std::from_chars(token.text.data(), end, module_.version_major);
    const bool good = token.kind == Token::Kind::decimal && major.ec == std::errc{} && *major.ptr == '.' &&
                      std::from_chars(major.ptr + 1, end, module_.version_minor).ptr == end;
    if (!good) cursor_.fail(token.at, fmt::format("expected a version such as 9.0, found '{}'", shown(token.text, 48)));
  }

  void module_statement() {
    const Token& token = cursor_.peek();
    if (token.is(".target")) return target();
    if (token.is(".address_size")) return address_size();
    if (token.is(".file")) return module_.files.push_back(debug_.parse_file(cursor_));
    if (token.is(".section")) return debug_.parse_section(cursor_);
    if (token.is(".alias")) return alias();
    if (token.is(".pragma")) return pragma(module_.pragmas);
    const Linkage linkage = parse_linkage(cursor_);
    if (cursor_.is(".entry") || cursor_.is(".func")) return function(linkage);
    if (begins_variable(cursor_.peek())) return parse_variables(cursor_, linkage, module_.variables);
    cursor_.fail_expected("a directive, a variable or a function");
  }

  void target() {
    cursor_.expect(".target");
    do {
      module_.targets.emplace_back(cursor_.identifier("a target such as sm_89"));
    } while (cursor_.accept(","));
  }

  void address_size() {
    cursor_.expect(".address_size");
    const Token token = cursor_.peek();
    module_.address_size = static_cast<int>(cursor_.number("the size of an address", 64));
    if (module_.address_size != 32 && module_.address_size != 64)
      cursor_.fail(token.at, "the size of an address is neither 32 nor 64");
  }

  void alias() {
    cursor_.expect(".alias");
    const std::string_view name = cursor_.identifier("the name of the alias");
    cursor_.expect(",");
    module_.aliases.emplace_back(name, cursor_.identifier("the function it stands for"));
    cursor_.expect(";");
  }

  void pragma(std::vector<std::string>& pragmas) {
    cursor_.expect(".pragma");
    do {
      pragmas.emplace_back(cursor_.quoted("a pragma in quotes"));
    } while (cursor_.accept(","));
    cursor_.expect(";");
  }

  void function(const Linkage& linkage) {
    Function function;
    function.is_extern = linkage.is_extern;
    function.is_visible = linkage.is_visible;
    function.is_weak = linkage.is_weak;
    function.is_entry = cursor_.take().is(".entry");
    if (cursor_.is(".attribute")) function.attributes = parse_attributes(cursor_);
    if (!function.is_entry && cursor_.is("(")) function.returns = parse_parameters(cursor_, false);
    function.at = cursor_.peek().at;
    function.name = cursor_.identifier("the name of a function");
    if (cursor_.is("(")) function.parameters = parse_parameters(cursor_, false);
    while (function_directive(function)) {
    }
    function_ = &function;
    raw_locations_.emplace_back();
    if (cursor_.is("{")) {
      function.body = block(0);
    } else if (cursor_.accept(";")) {
      function.is_declaration = true;
    } else {
      cursor_.fail_expected("'{' or ';' after the head of a function");
    }
    function_ = nullptr;
    module_.functions.push_back(std::move(function));
  }

  bool function_directive(Function& function) {
    if (cursor_.accept(".noreturn")) return function.is_noreturn = true;
    if (cursor_.is(".pragma")) {
      pragma(function.pragmas);
      return true;
    }
    if (std::find(kTuning.begin(), kTuning.end(), cursor_.peek().text) == kTuning.end()) return false;
    std::string name(cursor_.take().text.substr(1));
    std::vector<std::int64_t> values;
    if (cursor_.is(Token::Kind::integer)) {
      do {
        values.push_back(cursor_.number("the value of a directive", std::numeric_limits<std::int32_t>::max()));
      } while (cursor_.accept(","));
    }
    function.directives.emplace_back(std::move(name), std::move(values));
    return true;
  }

  Block block(int depth) {
    Block block;
    if (depth >= kDeepestScope) {
      cursor_.fail(cursor_.peek().at, fmt::format("scopes nest deeper than {} levels", kDeepestScope));
      return block;
    }
    cursor_.expect("{");
    while (!cursor_.is("}") && !cursor_.at_end()) statement(block, depth);
    cursor_.expect("}");
    return block;
  }

  void statement(Block& block, int depth) {
    const Token& token = cursor_.peek();
    if (token.kind == Token::Kind::identifier || token.is("@")) return label_or_instruction(block);
    if (token.is(".loc")) return raw_locations_.back().push_back(debug_.parse_loc(cursor_));
    if (token.is(".file")) return module_.files.push_back(debug_.parse_file(cursor_));
    if (token.is(".pragma")) return pragma(function_->pragmas);
    if (token.is("{")) return add(block, this->block(depth + 1));
    if (cursor_.accept(";")) return;
    const Linkage linkage = parse_linkage(cursor_);
    if (!begins_variable(cursor_.peek())) return cursor_.fail_expected("an instruction, a label or a variable");
    variables_.clear();
    parse_variables(cursor_, linkage, variables_);
    for (Variable& variable : variables_) add(block, std::move(variable));
  }

  template <class Node>
  static void add(Block& block, Node node) {
    block.statements.push_back({std::move(node)});
  }

  void label_or_instruction(Block& block) {
    if (cursor_.is("@")) return add(block, instruction({}));
    const Token name = cursor_.take();
    if (!cursor_.accept(":")) return add(block, instruction(name));
    if (cursor_.is(".branchtargets")) return add(block, target_list(name, TargetList::Kind::branch));
    if (cursor_.is(".calltargets")) return add(block, target_list(name, TargetList::Kind::call));
    if (cursor_.is(".callprototype")) return add(block, prototype(name));
    add(block, Label{.name = std::string(name.text), .at = name.at});
  }

  // `opcode` has been taken already, unless a guard comes first.
  Instruction instruction(Token opcode) {
    Instruction instruction;
    instruction.at = opcode.at;
    instruction.source = static_cast<int>(raw_locations_.back().size()) - 1;
    if (opcode.kind != Token::Kind::identifier) {
      instruction.at = cursor_.peek().at;
      cursor_.expect("@");
      const bool negated = cursor_.accept("!");
      instruction.guard = Guard{.predicate = std::string(cursor_.identifier("a predicate")), .negated = negated};
      if (!cursor_.is(Token::Kind::identifier)) cursor_.fail_expected("an instruction");
      opcode = cursor_.take();
    }
    instruction.opcode = opcode.text;
    while (cursor_.is(Token::Kind::dotted)) instruction.modifiers.emplace_back(cursor_.take().text.substr(1));
    if (cursor_.accept(";")) return instruction;
    const bool in_call = instruction.opcode == "call";
    do {
      instruction.operands.push_back(parse_operand(cursor_, in_call));
    } while (cursor_.accept(","));
    if (!cursor_.accept(";")) cursor_.fail_expected("',' or ';' after an operand");
    return instruction;
  }

  TargetList target_list(const Token& name, TargetList::Kind kind) {
    TargetList list{.kind = kind, .name = std::string(name.text), .at = name.at};
    cursor_.take();
    do {
      list.targets.emplace_back(cursor_.identifier(kind == TargetList::Kind::branch ? "a label" : "a function"));
    } while (cursor_.accept(","));
    cursor_.expect(";");
    return list;
  }

  // name: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
  TargetList prototype(const Token& name) {
    TargetList list{.kind = TargetList::Kind::prototype, .name = std::string(name.text), .at = name.at};
    cursor_.expect(".callprototype");
    if (cursor_.is("(")) list.returns = parse_parameters(cursor_, true);
    if (!cursor_.accept("_")) cursor_.identifier("'_' in place of the function's name");
    if (cursor_.is("(")) list.parameters = parse_parameters(cursor_, true);
    list.is_noreturn = cursor_.accept(".noreturn");
    for (const std::string_view directive : {".abi_preserve", ".abi_preserve_control"})
      if (cursor_.accept(directive)) cursor_.number("a number of registers", std::numeric_limits<std::int32_t>::max());
    cursor_.expect(";");
    return list;
  }

  Cursor cursor_;
  Module module_{};
  DebugInfo debug_{};
  std::vector<std::vector<RawLocation>> raw_locations_{};  // one list a function
  std::vector<Variable> variables_{};                      // of the declaration being read
  Function* function_ = nullptr;
};

}  // namespace

Result<Module> parse(std::string_view text, std::string name) {
  return Parser(text, std::move(name)).run();
}

}  // namespace flashmoe::vgpu::ptx
