#include "vgpu/ir/drafter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "vgpu/ir/wmma.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::ir {
namespace {

Form pseudo_form(std::string name) {
  Form form;
  form.opcode = "vgpu";
  form.modifiers.push_back(std::move(name));
  return form;
}

// Ops that wait for the lanes of their mask, or for the whole warp. bar.sync and setmaxnreg.sync wait for others.
bool waits_for_warp(const Form& form) {
  if (form.opcode == "bar") return form.has("warp");
  constexpr std::string_view opcodes[] = {"shfl",     "vote",     "match",     "redux", "mma",
                                          "ldmatrix", "stmatrix", "movmatrix", "elect"};
  return form.has("sync") && std::find(std::begin(opcodes), std::end(opcodes), form.opcode) != std::end(opcodes);
}

std::uint16_t bytes_moved(const Form& form) {
  if (form.opcode == "ldmatrix") return static_cast<std::uint16_t>(4 * form.destination_count);
  if (form.opcode == "stmatrix") return static_cast<std::uint16_t>(4 * form.source_count);
  constexpr std::string_view opcodes[] = {"ld", "ldu", "st", "atom", "red", "mbarrier"};
  if (form.opcode == "cp" && form.has("mbarrier")) return 8;  // the barrier it arrives at
  if (std::find(std::begin(opcodes), std::end(opcodes), form.opcode) == std::end(opcodes)) return 0;
  return static_cast<std::uint16_t>(bits_of(form.last_type()) / 8 * form.vector);
}

}  // namespace

bool Draft::is_guarded() const {
  return std::any_of(references.begin(), references.end(),
                     [](const Reference& reference) { return reference.where == Reference::Where::guard; });
}

FunctionDraft Drafter::run() {
  draft_.function.name = function_.name;
  for (const auto* variables : {&function_.returns, &function_.parameters})
    for (const ptx::Variable& variable : *variables)
      if (variable.space == "reg")
        fail(variable.at,
             fmt::format("{} of {} is a .reg: only .param parameters are supported", variable.name, function_.name));
  draft_.code.reserve(function_.body.statements.size());
  block(function_.body);
  // Control may run off the end: that is a return (PTX ISA 9.7.12.6).
  ptx::Instruction last;
  last.opcode = "ret";
  last.at = function_.at;
  const bool is_open = draft_.code.empty() || draft_.code.back().flow == Flow::next ||
                       draft_.code.back().is_guarded() ||
                       std::find(draft_.labels.begin(), draft_.labels.end(), draft_.code.size()) != draft_.labels.end();
  if (is_open) {
    instruction(last);
    draft_.code.back().info.is_pseudo = true;
  }
  if (!function_.is_entry) merge_returns();
  at_ = nullptr;
  check_sizes();
  return std::move(draft_);
}

void Drafter::block(const ptx::Block& block) {
  scopes_.open(block);
  for (const ptx::Statement& statement : block.statements) {
    if (const auto* one = std::get_if<ptx::Instruction>(&statement.what)) instruction(*one);
    if (const auto* inner = std::get_if<ptx::Block>(&statement.what)) this->block(*inner);
    if (const auto* label = std::get_if<ptx::Label>(&statement.what)) {
      std::uint32_t& position = draft_.labels[scopes_.find(label->name).number];
      if (position != no_slot) fail(label->at, fmt::format("label {} stands twice in one block", label->name));
      position = static_cast<std::uint32_t>(draft_.code.size());
      met_ = Met::not_yet;
    }
  }
  scopes_.close();
}

Diagnostic Drafter::located(ptx::Location at, std::string message, std::string fix) const {
  if (at_ != nullptr) message += fmt::format(" in: {}", ptx::print(*at_));
  return {std::move(message), std::move(fix), context_.index->module->name, at.line, at.column, ""};
}

bool Drafter::fail(ptx::Location at, std::string message, std::string fix) {
  draft_.errors.push_back(located(at, std::move(message), std::move(fix)));
  return false;
}

const Drafter::Known* Drafter::known(const std::string& opcode, const std::vector<std::string>& modifiers) {
  name_.clear();
  ptx::append_form(name_, opcode, modifiers);
  const auto [entry, is_new] = known_.try_emplace(name_);
  Known& known = entry->second;
  if (is_new) {
    known.form.opcode = opcode;
    known.form.modifiers = modifiers;
    known.row = match(known.form);
    if (known.row != nullptr) known.specs = parse_operand_specs(known.row->operands);
  }
  if (known.row != nullptr) return &known;
  const OpRow& nearest = nearest_row(known.form);
  (is_ptx_opcode(opcode) ? draft_.unsupported : draft_.errors)
      .push_back(located(at_->at, fmt::format("unknown instruction form {}", known.form.text()),
                         nearest.opcode == opcode || !is_ptx_opcode(opcode)
                             ? fmt::format("the nearest known one is {}", shown(nearest))
                             : fmt::format("no {} is executed; docs/ptx-forms.md lists what is", opcode)));
  return nullptr;
}

Draft Drafter::begin(const ptx::Instruction& instruction, const Known& known) const {
  Draft draft;
  draft.info.form = known.form;
  draft.info.at = instruction.at;
  draft.info.pipe = known.row->pipe;
  draft.info.poison = known.row->poison;
  if (!context_.describes) return draft;
  draft.info.text = ptx::print(written_ != nullptr ? *written_ : instruction);
  describe_source(instruction, draft.info);
  return draft;
}

void Drafter::describe_source(const ptx::Instruction& instruction, InstInfo& info) const {
  if (instruction.source < 0 || static_cast<std::size_t>(instruction.source) >= function_.sources.size()) return;
  const auto place = [this](const ptx::SourceLocation& source) {
    for (const ptx::File& file : context_.index->module->files)
      if (file.index == source.file)
        return fmt::format("{}:{}", file.path.substr(file.path.find_last_of('/') + 1), source.line);
    return fmt::format("?:{}", source.line);
  };
  const ptx::SourceLocation& source = function_.sources[static_cast<std::size_t>(instruction.source)];
  info.source_file = source.file;
  info.source_line = source.line;
  for (const ptx::SourceLocation* inner = &source; inner->inlined_at != nullptr; inner = inner->inlined_at.get())
    info.inlined += fmt::format("{}{}, inlined at ", place(*inner),
                                inner->function.empty() ? "" : fmt::format(" in {}", inner->function));
  if (info.inlined.empty()) return;
  const ptx::SourceLocation* outermost = &source;
  while (outermost->inlined_at != nullptr) outermost = outermost->inlined_at.get();
  info.inlined += place(*outermost);
}

bool Drafter::guard(const ptx::Instruction& instruction, Draft& draft) {
  if (!instruction.guard) return true;
  const Symbol symbol = scopes_.find(instruction.guard->predicate);
  if (symbol.kind != Symbol::Kind::reg || !draft_.registers[symbol.number].is_predicate())
    return fail(instruction.at, fmt::format("guard {} is no predicate register", instruction.guard->predicate));
  draft.references.push_back({Reference::Where::guard, 0, symbol.number, false});
  draft.inst.guard_negated = instruction.guard->negated;
  return true;
}

void Drafter::wmma(const ptx::Instruction& instruction) {
  int address_bits = 64;
  for (const ptx::Operand& operand : instruction.operands) {
    if (operand.kind != ptx::Operand::Kind::address) continue;
    const Symbol symbol = scopes_.find(operand.name);
    if (symbol.kind == Symbol::Kind::reg) address_bits = draft_.registers[symbol.number].bits;
  }
  auto expanded = expanded_wmma(instruction, address_bits);
  if (!expanded) {
    draft_.unsupported.push_back(located(instruction.at, fmt::format("unknown instruction form {}", instruction.form()),
                                         "wmma runs for f16, bf16, tf32, f64 and 8-bit integers, C and D of one type"));
    return;
  }
  written_ = &instruction;
  block(expanded_.emplace_back(std::move(*expanded)));
  written_ = nullptr;
}

// [handle, {x, y}] becomes a handle and a vector.
void Drafter::texture(const ptx::Instruction& instruction) {
  ptx::Instruction flat = instruction;
  flat.operands.clear();
  for (const ptx::Operand& operand : instruction.operands) {
    if (operand.kind != ptx::Operand::Kind::address) {
      flat.operands.push_back(operand);
      continue;
    }
    if (operand.parts.size() != 1 || scopes_.find(operand.name).kind != Symbol::Kind::reg) {
      draft_.unsupported.push_back(located(instruction.at,
                                           fmt::format("{} of a texture or surface reference", instruction.form()),
                                           "use texture and surface objects (cudaCreateTextureObject)"));
      return;
    }
    ptx::Operand handle = operand;
    handle.kind = ptx::Operand::Kind::identifier;
    handle.parts.clear();
    flat.operands.push_back(std::move(handle));
    flat.operands.push_back(operand.parts[0]);
  }
  written_ = &instruction;
  this->instruction(flat);
  written_ = nullptr;
}

void Drafter::instruction(const ptx::Instruction& instruction) {
  at_ = &instruction;
  if (instruction.opcode == "wmma") return wmma(instruction);
  const bool is_texture = instruction.opcode == "tex" || instruction.opcode == "suld" || instruction.opcode == "sust";
  if (is_texture && written_ == nullptr) return texture(instruction);
  const Known* form = known(instruction.opcode, instruction.modifiers);
  if (form == nullptr) return;
  Draft draft = begin(instruction, *form);
  if (!guard(instruction, draft)) return;
  if (instruction.opcode == "call") {
    call(instruction, std::move(draft));
    met_ = Met::not_yet;
    return;
  }
  const std::optional<Bound> bound = bind(instruction, *form);
  if (!bound) return;
  for (std::size_t i = 0; i < form->specs.size(); ++i) {
    if (form->specs[i].kind == OperandSpec::Kind::carry) {
      if (carry_ == no_slot) carry_ = temporary(1);
      refer(draft, form->specs[i].field, carry_, form->specs[i].field == Field::e);
    } else if ((*bound)[i] != nullptr && !apply(form->specs[i], *(*bound)[i], draft)) {
      return;
    }
  }
  if (draft.inst.size == 0) draft.inst.size = bytes_moved(draft.info.form);
  set_flow(draft);
  if (waits_for_warp(draft.info.form)) {
    converge_before(draft);
  } else if (draft.flow != Flow::next || draft.info.pipe == Pipe::barrier) {
    met_ = Met::not_yet;
  }
  draft_.code.push_back(std::move(draft));
}

void Drafter::set_flow(Draft& draft) const {
  const std::string& opcode = draft.info.form.opcode;
  if (opcode == "bra") draft.flow = Flow::branch;
  if (opcode == "brx") draft.flow = Flow::table;
  if (opcode == "ret") draft.flow = Flow::returns;
  if (opcode == "exit" || opcode == "trap") draft.flow = Flow::stops;
  draft.inst.runs_empty = draft.flow == Flow::branch || draft.flow == Flow::table;
  if (draft.inst.runs_empty) draft.inst.imm = -1;
}

bool Drafter::is_full_mask(std::uint32_t name) const {
  return std::any_of(draft_.constants.begin(), draft_.constants.end(), [name](const ConstantRegister& constant) {
    return constant.name == name && constant.bits == 0xffffffffu;
  });
}

void Drafter::converge_before(const Draft& draft) {
  Draft pseudo;
  bool is_whole_warp = true;
  Met meeting = Met::unmasked;
  for (const Reference& reference : draft.references) {
    const bool is_mask = reference.where == Reference::Where::m;
    if (!is_mask && reference.where != Reference::Where::guard) continue;
    pseudo.references.push_back(reference);
    is_whole_warp &= is_mask && is_full_mask(reference.name);
    if (is_mask) meeting = Met::full_mask;
  }
  // Within a basic block lanes stay together: a second meeting of the whole warp adds nothing. bar.warp.sync keeps its
  // own, for it orders memory as well. Where only some wait, the others run ahead.
  if (is_whole_warp && met_ >= meeting && draft.info.form.opcode != "bar") return;
  met_ = is_whole_warp ? std::max(met_, meeting) : Met::not_yet;
  pseudo.info = draft.info;
  pseudo.info.form = pseudo_form("converge");
  pseudo.info.is_pseudo = true;
  pseudo.info.pipe = Pipe::control;
  pseudo.info.poison = PoisonRule::none;
  pseudo.inst.guard_negated = draft.inst.guard_negated;
  draft_.code.push_back(std::move(pseudo));
}

// A function that returns at several places returns at one: lanes that parted inside it meet before they go back.
void Drafter::merge_returns() {
  std::vector<std::size_t> returns;
  for (std::size_t i = 0; i < draft_.code.size(); ++i)
    if (draft_.code[i].flow == Flow::returns) returns.push_back(i);
  if (returns.empty() || (returns.size() == 1 && !draft_.code[returns[0]].is_guarded())) return;
  if (draft_.code.back().flow != Flow::returns || draft_.code.back().is_guarded()) {
    Draft last;
    last.info = draft_.code[returns.back()].info;
    last.info.is_pseudo = true;
    last.flow = Flow::returns;
    draft_.code.push_back(std::move(last));
  }
  const auto label = static_cast<std::uint32_t>(draft_.labels.size());
  const std::size_t last = draft_.code.size() - 1;
  draft_.labels.push_back(static_cast<std::uint32_t>(last));
  for (const std::size_t i : returns) {
    if (i == last) continue;
    Draft& draft = draft_.code[i];
    draft.info.form.opcode = "bra";
    draft.flow = Flow::branch;
    draft.labels.push_back(label);
    draft.inst.runs_empty = true;
    draft.inst.imm = -1;
  }
}

void Drafter::check_sizes() {
  const Function& function = draft_.function;
  const std::uint64_t thread_bytes =
      std::uint64_t{function.local_bytes} + function.parameter_bytes + function.call_area_bytes;
  if (thread_bytes > kMostLocalBytes)
    fail(function_.at, fmt::format("{} needs {} bytes of local memory and parameters, a thread has at most {}",
                                   function_.name, thread_bytes, kMostLocalBytes));
  if (const std::uint32_t bytes = parameter_area({}, function_.parameters).bytes;
      function_.is_entry && bytes > kMostEntryParameterBytes)
    fail(function_.at, fmt::format("{} has {} bytes of parameters, an entry has at most {}", function_.name, bytes,
                                   kMostEntryParameterBytes));
}

FunctionDraft draft_function(const DraftContext& context, const ptx::Function& function) {
  return Drafter(context, function).run();
}

}  // namespace flashmoe::vgpu::ir
