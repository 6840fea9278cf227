#include "vgpu/ir/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "vgpu/ir/builtins.hpp"
#include "vgpu/ir/draft.hpp"
#include "vgpu/ir/flow.hpp"
#include "vgpu/ir/reach.hpp"
#include "vgpu/ir/slots.hpp"
#include "vgpu/ir/stack.hpp"

namespace flashmoe::vgpu::ir {
namespace {

void add_reconvergence(FunctionDraft& draft);

// Puts drafts one behind the other into a kernel.
class Assembler {
 public:
  Assembler(Kernel& kernel, const Surroundings& surroundings) : kernel_(kernel), surroundings_(surroundings) {}

  [[nodiscard]] Result<Done> add(FunctionDraft draft, Function& function) {
    add_reconvergence(draft);
    const Placement placement = place_registers(draft, build_flow(draft));
    const std::uint64_t address = function.address;
    function = std::move(draft.function);
    function.address = address;
    function.entry = static_cast<std::uint32_t>(kernel_.code.size());
    function.slots = placement.slots;
    function.predicates = placement.predicates;
    for (const ConstantRegister& constant : draft.constants)
      function.constants.push_back({placement.places[constant.name], constant.bits,
                                    draft.registers[constant.name].is_wide(), constant.is_local});
    if (draft.true_predicate != no_slot) function.true_predicates.push_back(placement.places[draft.true_predicate]);
    kernel_.code.reserve(kernel_.code.size() + draft.code.size());
    kernel_.info.reserve(kernel_.info.size() + draft.code.size());
    for (Draft& one : draft.code) {
      place(draft, placement, function.entry, one);
      one.inst.run = handler(one.info.form);
      one.inst.is_instruction = !one.info.is_pseudo;
      if (one.inst.run == nullptr)
        return Diagnostic{
            fmt::format("the virtual GPU has no function for {} in: {}", one.info.form.text(), one.info.text),
            "",
            kernel_.module_name,
            one.info.at.line,
            one.info.at.column,
            ""};
      kernel_.code.push_back(one.inst);
      kernel_.info.push_back(std::move(one.info));
    }
    return Done{};
  }

 private:
  void place(const FunctionDraft& draft, const Placement& placement, std::uint32_t entry, Draft& one) {
    Inst& inst = one.inst;
    for (const Reference& reference : one.references) {
      const std::uint32_t slot = placement.places[reference.name];
      if (std::uint32_t* target = field(one, reference)) {
        *target = slot;
      } else {
        inst.guard = static_cast<std::uint16_t>(slot + 1);
      }
      const Register& reg = draft.registers[reference.name];
      auto& touched = reg.is_predicate()
                          ? (reference.is_written ? one.info.written_predicates : one.info.read_predicates)
                      : reference.is_written ? one.info.writes
                                             : one.info.reads;
      touched.push_back(slot);
      if (reg.is_wide()) touched.push_back(slot + 1);
    }
    if (one.flow == Flow::branch) inst.target = entry + draft.labels[one.labels[0]];
    if (one.flow == Flow::table) {
      one.list.push_back(static_cast<std::uint32_t>(one.labels.size()));
      for (const std::uint32_t label : one.labels) one.list.push_back(entry + draft.labels[label]);
    }
    if (inst.runs_empty && inst.imm >= 0) inst.imm += entry;
    if (one.list.empty()) return;
    inst.list = static_cast<std::uint32_t>(kernel_.lists.size());
    kernel_.lists.insert(kernel_.lists.end(), one.list.begin(), one.list.end());
  }

  // Where the place of a reference goes; the guard is kept otherwise.
  static std::uint32_t* field(Draft& one, const Reference& reference) {
    switch (reference.where) {
      case Reference::Where::d:
        return &one.inst.d;
      case Reference::Where::e:
        return &one.inst.e;
      case Reference::Where::a:
        return &one.inst.a;
      case Reference::Where::b:
        return &one.inst.b;
      case Reference::Where::c:
        return &one.inst.c;
      case Reference::Where::m:
        return &one.inst.m;
      case Reference::Where::list:
        return &one.list[reference.index];
      case Reference::Where::guard:
        break;
    }
    return nullptr;
  }

  Handler handler(const Form& form) {
    form_.clear();
    ptx::append_form(form_, form.opcode, form.modifiers);
    for (const int count : {form.destination_count, form.source_count, form.destination_bits, form.source_bits,
                            static_cast<int>(form.reads_special)})
      form_ += static_cast<char>(count);  // each below 256
    const auto [entry, is_new] = handlers_.try_emplace(form_, nullptr);
    if (is_new) entry->second = surroundings_.handler(form);
    return entry->second;
  }

  Kernel& kernel_;
  const Surroundings& surroundings_;
  std::unordered_map<std::string, Handler> handlers_{};
  std::string form_{};  // what is looked up in it; a member, so that its memory is kept
};

// Marks the places at which lanes meet, and tells the branches. Labels and branches move with the code.
void add_reconvergence(FunctionDraft& draft) {
  const FlowGraph graph = build_flow(draft);
  const std::vector<std::uint32_t> meetings = meeting_blocks(graph, draft);
  std::vector<bool> is_meeting(graph.blocks.size(), false);
  for (const std::uint32_t block : meetings)
    if (block != no_slot) is_meeting[block] = true;

  std::vector<std::uint32_t> moved(draft.code.size() + 1);  // old place of a block's begin -> new one
  std::vector<std::uint32_t> begin(graph.blocks.size());
  std::vector<Draft> code;
  code.reserve(draft.code.size() + graph.blocks.size());
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const BasicBlock& block = graph.blocks[b];
    begin[b] = moved[block.first] = static_cast<std::uint32_t>(code.size());
    if (is_meeting[b]) {
      Draft meeting;
      const InstInfo& next = draft.code[block.first].info;
      meeting.info.at = next.at;
      meeting.info.source_file = next.source_file;
      meeting.info.source_line = next.source_line;
      meeting.info.inlined = next.inlined;
      meeting.info.text = "vgpu.reconverge";
      meeting.info.form.opcode = "vgpu";
      meeting.info.form.modifiers = {"reconverge"};
      meeting.info.pipe = Pipe::control;
      meeting.info.poison = PoisonRule::none;
      meeting.info.is_pseudo = true;
      meeting.inst.runs_empty = true;
      meeting.inst.imm = -1;
      code.push_back(std::move(meeting));
    }
    for (std::uint32_t i = block.first; i < block.end; ++i) code.push_back(std::move(draft.code[i]));
  }
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    if (meetings[b] == no_slot) continue;
    const std::uint32_t last =
        (b + 1 < graph.blocks.size() ? begin[b + 1] : static_cast<std::uint32_t>(code.size())) - 1;
    code[last].inst.imm = begin[meetings[b]];
  }
  for (std::uint32_t& label : draft.labels)
    if (label < moved.size()) label = moved[label];
  draft.code = std::move(code);
}

void read_directives(const ptx::Function& entry, Kernel& kernel) {
  for (const auto& [name, values] : entry.directives) {
    if (values.empty()) continue;
    const auto first = static_cast<std::uint32_t>(values[0]);
    if (name == "maxntid" || name == "reqntid") {
      std::uint32_t product = 1;
      for (const std::int64_t value : values) product *= static_cast<std::uint32_t>(value);
      kernel.max_threads = product;
    }
    if (name == "reqntid")
      for (std::size_t i = 0; i < 3; ++i)
        kernel.required_threads[i] = i < values.size() ? static_cast<std::uint32_t>(values[i]) : 1;
    if (name == "minnctapersm") kernel.min_ctas_per_sm = static_cast<int>(first);
    if (name == "maxnreg") kernel.max_registers = static_cast<int>(first);
  }
}

void describe_parameters(const ptx::Function& entry, Kernel& kernel) {
  const ParameterArea area = parameter_area({}, entry.parameters);
  kernel.parameter_bytes = area.bytes;
  for (std::size_t i = 0; i < entry.parameters.size(); ++i)
    kernel.parameters.push_back(
        {entry.parameters[i].name, area.parameters[i], bytes_of(entry.parameters[i]), align_of(entry.parameters[i])});
}

}  // namespace

Result<Kernel> lower(const ptx::Module& module, std::string_view entry, const Surroundings& surroundings) {
  const ModuleIndex index(module);
  const ptx::Function* function = index.function(entry);
  if (function == nullptr || !function->is_entry || function->is_declaration)
    return Diagnostic{fmt::format("the module has no entry {}", entry), "", module.name};
  const Reach reached = reach(index, *function);
  const SharedLayout shared = shared_layout(module, reached.functions, surroundings.red_zones);

  Kernel kernel;
  kernel.name = function->name;
  kernel.module_name = module.name;
  kernel.static_shared_bytes = shared.static_bytes;
  kernel.dynamic_shared_offset = shared.dynamic_offset;
  kernel.shared_arrays = shared.arrays;
  kernel.red_zone_bytes = shared.red_zone_bytes;
  kernel.files.emplace_back();
  for (const ptx::File& file : module.files) {
    if (file.index < 0) continue;
    kernel.files.resize(std::max(kernel.files.size(), static_cast<std::size_t>(file.index) + 1));
    kernel.files[static_cast<std::size_t>(file.index)] = file.path;
  }
  describe_parameters(*function, kernel);
  read_directives(*function, kernel);

  std::unordered_map<const ptx::Function*, std::uint32_t> numbers;
  for (const ptx::Function* one : reached.functions) numbers.emplace(one, static_cast<std::uint32_t>(numbers.size()));
  DraftContext context;
  context.index = &index;
  context.shared = &shared;
  context.address_of = surroundings.address_of;
  context.function_address = surroundings.function_address;
  context.function_number = [&](const ptx::Function& callee) { return numbers.at(&callee); };

  kernel.functions.resize(reached.functions.size());
  Assembler assembler(kernel, surroundings);
  for (std::size_t i = 0; i < reached.functions.size(); ++i) {
    const ptx::Function& one = *reached.functions[i];
    Function& placed = kernel.functions[i];
    if (reached.taken.contains(&one)) placed.address = surroundings.function_address(one.name);
    if (one.is_declaration) {
      placed.name = placed.builtin = one.name;
      placed.parameter_bytes = parameter_area(one.returns, one.parameters).bytes;
      placed.signature = signature_of(one.returns, one.parameters);
      if (const Result<Done> right = check_builtin(one, module.name); !right) return right.error();
      if (!is_builtin(one.name))
        return Diagnostic{defined_nowhere(one.name), "", module.name, one.at.line, one.at.column, ""};
      continue;
    }
    FunctionDraft draft = draft_function(context, one);
    if (!draft.unsupported.empty()) return draft.unsupported.front();
    if (!draft.errors.empty()) return draft.errors.front();
    if (const Result<Done> added = assembler.add(std::move(draft), placed); !added) return added.error();
    placed.signature = signature_of(one.returns, one.parameters);
    placed.stack_bytes = stack_bytes_of(placed, i == 0);
  }
  kernel.stack_bytes = known_stack_bytes(kernel);
  return kernel;
}

}  // namespace flashmoe::vgpu::ir
