// Drafts one function. The work is in four files: drafter.cpp walks the body, drafter_fit.cpp fits operands to the row
// of the op table, drafter_operands.cpp resolves them, drafter_call.cpp lays out calls.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "vgpu/ir/draft.hpp"
#include "vgpu/ir/op_table.hpp"
#include "vgpu/ir/operand_spec.hpp"
#include "vgpu/ir/scope.hpp"

namespace flashmoe::vgpu::ir {

class Drafter {
 public:
  Drafter(const DraftContext& context, const ptx::Function& function)
      : context_(context), function_(function), scopes_(*context.index, *context.shared, function, draft_) {}
  [[nodiscard]] FunctionDraft run();

 private:
  struct Known {  // a form met before
    const OpRow* row = nullptr;
    Form form{};
    std::vector<OperandSpec> specs{};
  };

  // drafter.cpp
  void block(const ptx::Block& block);
  void instruction(const ptx::Instruction& instruction);
  void wmma(const ptx::Instruction& instruction);
  void texture(const ptx::Instruction& instruction);
  const Known* known(const std::string& opcode, const std::vector<std::string>& modifiers);
  [[nodiscard]] Draft begin(const ptx::Instruction& instruction, const Known& known) const;
  void describe_source(const ptx::Instruction& instruction, InstInfo& info) const;
  bool guard(const ptx::Instruction& instruction, Draft& draft);
  void set_flow(Draft& draft) const;
  void converge_before(const Draft& draft);
  [[nodiscard]] bool is_full_mask(std::uint32_t name) const;
  void merge_returns();
  void check_sizes();
  bool fail(ptx::Location at, std::string message, std::string fix = {});
  [[nodiscard]] Diagnostic located(ptx::Location at, std::string message, std::string fix) const;

  // drafter_fit.cpp
  using Bound = std::vector<const ptx::Operand*>;  // per spec; nullptr: left out
  [[nodiscard]] std::optional<Bound> bind(const ptx::Instruction& instruction, const Known& known);
  bool bind_from(const ptx::Instruction& instruction, const Known& known, std::size_t spec, std::size_t operand,
                 Bound& bound, std::pair<std::size_t, std::size_t>& furthest) const;
  [[nodiscard]] bool fits(const OperandSpec& spec, const Form& form, const ptx::Operand& operand) const;
  [[nodiscard]] bool fits_scalar(const OperandSpec& spec, const ptx::Operand& operand, int bits,
                                 bool may_be_wider) const;
  [[nodiscard]] bool fits_vector(const OperandSpec& spec, const Form& form, const ptx::Operand& operand) const;
  [[nodiscard]] std::string describe(const OperandSpec& spec, const Form& form) const;
  [[nodiscard]] std::string describe(const ptx::Operand& operand) const;

  // drafter_operands.cpp
  bool apply(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft);
  bool apply_vector(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft);
  bool apply_scalar(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft);
  bool apply_address(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft);
  bool apply_targets(const ptx::Operand& operand, Draft& draft);
  // The register that holds a source; special registers, literals and addresses get one.
  std::optional<std::uint32_t> value(const ptx::Operand& operand, Type type);
  std::optional<std::uint32_t> predicate_value(const ptx::Operand& operand, bool may_negate);
  std::optional<std::uint64_t> address_value(const Symbol& symbol, const ptx::Operand& operand, bool& is_local);
  std::uint32_t constant(std::uint64_t bits, int width, bool is_local = false);
  std::uint32_t temporary(int bits);
  std::uint32_t true_predicate();
  void move_special(const ptx::Operand& operand, std::uint32_t destination);
  void negate(std::uint32_t source, std::uint32_t destination);
  static void refer(Draft& draft, Field field, std::uint32_t name, bool is_written);
  static void refer_in_list(Draft& draft, std::uint32_t name, bool is_written);

  // drafter_call.cpp
  struct Callee {
    std::uint32_t number = no_slot;
    const std::vector<ptx::Variable>* returns = nullptr;
    const std::vector<ptx::Variable>* parameters = nullptr;
  };
  bool call(const ptx::Instruction& instruction, Draft draft);
  std::optional<Callee> callee(const ptx::Instruction& instruction, std::size_t operand, Draft& draft);
  std::optional<std::uint32_t> argument(const ptx::Instruction& instruction, const ptx::Operand& operand,
                                        const ptx::Variable& formal, bool is_return, std::vector<Draft>& after);
  [[nodiscard]] std::optional<Draft> parameter_move(const ptx::Instruction& instruction, bool is_load, Type type,
                                                    std::uint32_t name, std::uint32_t offset);

  const DraftContext& context_;
  const ptx::Function& function_;
  FunctionDraft draft_{};
  Scopes scopes_;
  std::unordered_map<std::string, Known> known_{};
  std::string name_{};  // of the form that is looked up in it; a member, so that its memory is kept
  std::map<std::tuple<std::uint64_t, bool, bool>, std::uint32_t> constants_{};
  std::uint32_t carry_ = no_slot;
  enum class Met : std::uint8_t { not_yet, unmasked, full_mask };
  Met met_ = Met::not_yet;  // whether the whole warp met in this basic block already, and with what mask
  const ptx::Instruction* at_ = nullptr;
  const ptx::Instruction* written_ = nullptr;  // what is being expanded
  std::deque<ptx::Block> expanded_{};          // names point into them
};

}  // namespace flashmoe::vgpu::ir
