// A function between AST and Kernel: forms decided, operands resolved to virtual registers without end, not yet placed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/result.hpp"
#include "vgpu/ir/kernel.hpp"
#include "vgpu/ir/layout.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

struct Register {
  std::string name{};
  int bits = 32;  // 1: a predicate; 16, 32, 64
  [[nodiscard]] bool is_predicate() const { return bits == 1; }
  [[nodiscard]] bool is_wide() const { return bits == 64; }
};

// A register in a field of an instruction.
struct Reference {
  enum class Where : std::uint8_t { d, e, a, b, c, m, guard, list };
  Where where = Where::a;
  std::uint32_t index = 0;  // in the list
  std::uint32_t name = 0;   // index into FunctionDraft::registers
  bool is_written = false;
};

enum class Flow : std::uint8_t {
  next,
  branch,   // to labels[0]; on as well when guarded
  table,    // to one of labels
  returns,  // ret
  stops,    // exit, trap; ret of an entry is the same
};

struct Draft {
  Inst inst{};
  InstInfo info{};
  std::vector<Reference> references{};
  std::vector<std::uint32_t> list{};    // for references, a place; else the value itself
  std::vector<std::uint32_t> labels{};  // indices into FunctionDraft::labels
  Flow flow = Flow::next;
  [[nodiscard]] bool is_guarded() const;
};

struct ConstantRegister {
  std::uint32_t name = 0;
  std::uint64_t bits = 0;
  bool is_local = false;
};

struct FunctionDraft {
  std::vector<Draft> code{};
  std::vector<Register> registers{};
  std::vector<std::uint32_t> labels{};  // where each stands: an index into code
  std::vector<ConstantRegister> constants{};
  std::uint32_t true_predicate = no_slot;  // the register that holds true, if one is needed
  Function function{};                     // name and sizes; entry, slots and constants follow when it is placed
  std::vector<Diagnostic> errors{};
  std::vector<Diagnostic> unsupported{};  // what PTX has and exec has not
};

// Functions and variables of a module by name.
struct ModuleIndex {
  explicit ModuleIndex(const ptx::Module& module);
  // The definition where there is one, else a declaration; aliases are followed.
  [[nodiscard]] const ptx::Function* function(std::string_view name) const;
  [[nodiscard]] const ptx::Variable* variable(std::string_view name) const;
  const ptx::Module* module = nullptr;

 private:
  std::unordered_map<std::string_view, const ptx::Function*> functions_{};
  std::unordered_map<std::string_view, const ptx::Variable*> variables_{};
};

// What a draft asks of the kernel that it becomes part of.
struct DraftContext {
  const ModuleIndex* index = nullptr;
  const SharedLayout* shared = nullptr;
  std::function<std::uint64_t(std::string_view)> address_of{};
  std::function<std::uint64_t(std::string_view)> function_address{};
  std::function<std::uint32_t(const ptx::Function&)> function_number{};  // in Kernel::functions
  bool describes = true;  // instructions get their text and source line; who only asks whether all is right needs none
};

[[nodiscard]] FunctionDraft draft_function(const DraftContext& context, const ptx::Function& function);

}  // namespace flashmoe::vgpu::ir
