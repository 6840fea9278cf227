// Control flow and barriers: PTX ISA 9.7.12, 9.7.13.1.
#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

void jump(Step& s, const std::string& label) {
  Frame& frame = s.thread.frame();
  const auto found = frame.program->labels.find(label);
  if (found == frame.program->labels.end()) s.unknown("no label " + label);
  frame.pc = found->second;
}

std::vector<std::uint8_t> argument(Step& s, const ptx::Operand& operand, std::uint64_t bytes) {
  Frame& frame = s.thread.frame();
  std::vector<std::uint8_t> value(bytes);
  if (const auto found = frame.program->variables.find(operand.name); found != frame.program->variables.end()) {
    for (std::uint64_t i = 0; i < bytes; ++i) value[i] = frame.parameters.at(found->second.offset + i);
    return value;
  }
  const Bits bits = s.read(operand, bytes == 8 ? "b64" : "b32");
  for (std::uint64_t i = 0; i < bytes; ++i) value[i] = static_cast<std::uint8_t>(bits >> (8 * i));
  return value;
}

std::uint64_t size_of(const Program& program, const std::string& name) {
  if (const auto place = program.variables.find(name); place != program.variables.end()) return place->second.bytes;
  return static_cast<std::uint64_t>((program.register_bits.at(name) + 7) / 8);
}

void set_argument(Frame& frame, const std::string& name, const std::vector<std::uint8_t>& value) {
  if (const auto place = frame.program->variables.find(name); place != frame.program->variables.end()) {
    for (std::size_t i = 0; i < value.size(); ++i) frame.parameters.at(place->second.offset + i) = value[i];
    return;
  }
  Bits bits = 0;
  for (std::size_t i = value.size(); i-- > 0;) bits = bits << 8 | value[i];
  frame.registers[name] = bits;
}

std::uint64_t parameter_area(const Program& program) {
  std::uint64_t bytes = 0;
  for (const auto& [name, place] : program.variables)
    if (place.space == "param") bytes = std::max(bytes, place.offset + place.bytes);
  return bytes;
}

struct CallSite {
  std::vector<ptx::Operand> returns{}, arguments{};
  ptx::Operand callee{};
};

CallSite call_site(const ptx::Instruction& instruction) {
  CallSite site;
  std::size_t i = 0;
  if (instruction.operands.at(0).kind == ptx::Operand::Kind::list) site.returns = instruction.operands.at(i++).parts;
  site.callee = instruction.operands.at(i++);
  if (i < instruction.operands.size() && instruction.operands[i].kind == ptx::Operand::Kind::list)
    site.arguments = instruction.operands[i].parts;
  return site;
}

void call(Step& s) {
  const CallSite site = call_site(s.instruction);
  std::string name = site.callee.name;
  const auto& functions = s.machine.image().functions;
  if (s.thread.frame().program->register_bits.contains(name)) {  // through a register
    const auto id = static_cast<std::uint64_t>(s.read(site.callee, "u64"));
    for (const auto& [function, number] : s.machine.image().function_ids)
      if (number == id) name = function;
  }
  const auto found = functions.find(name);
  if (found == functions.end()) s.unknown("no function " + name);
  const Program& program = found->second;
  Frame frame;
  frame.program = &program;
  frame.parameters.assign(parameter_area(program), 0);
  frame.local_start = (s.thread.local.size() + 15) / 16 * 16;
  for (std::size_t i = 0; i < program.parameters.size(); ++i)
    set_argument(frame, program.parameters[i],
                 argument(s, site.arguments.at(i), size_of(program, program.parameters[i])));
  s.thread.local.resize(frame.local_start + program.local_bytes);
  s.thread.frames.push_back(std::move(frame));
}

void give_back(Step& s) {
  if (s.thread.frames.size() == 1) {
    s.thread.state = Thread::State::exited;
    return;
  }
  const Program& program = *s.thread.frame().program;
  std::vector<std::vector<std::uint8_t>> results;
  for (const std::string& name : program.returns) {
    ptx::Operand operand;
    operand.name = name;
    results.push_back(argument(s, operand, size_of(program, name)));
  }
  s.thread.local.resize(s.thread.frame().local_start);
  s.thread.frames.pop_back();
  const CallSite site = call_site(s.thread.instruction());
  for (std::size_t i = 0; i < results.size(); ++i) set_argument(s.thread.frame(), site.returns.at(i).name, results[i]);
  ++s.thread.frame().pc;
}

void barrier(Step& s) {
  const bool reduces = s.has("red");
  std::size_t at = reduces ? 1 : 0;
  const auto number = static_cast<int>(s.read(at++, "u32"));
  std::uint32_t expected = 0;
  // bar.red d, a {, b}, p
  const std::size_t values = s.operands() - (reduces ? 1 : 0);
  if (at < values) expected = static_cast<std::uint32_t>(s.read(at++, "u32"));
  const bool predicate = reduces && s.predicate(at);
  s.machine.arrive(s.thread, number, expected, !s.has("arrive"), predicate);
}

}  // namespace

bool control_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode == "bra") {
    jump(s, s.operand(0).name);
  } else if (opcode == "brx") {
    const auto& targets = s.thread.frame().program->targets.at(s.operand(1).name);
    jump(s, targets.at(static_cast<std::size_t>(s.read(0, "u32"))));
  } else if (opcode == "call") {
    call(s);
  } else if (opcode == "ret") {
    give_back(s);
  } else if (opcode == "exit") {
    s.thread.state = Thread::State::exited;
  } else if (opcode == "trap") {
    s.unknown("trap");
  } else if ((opcode == "bar" || opcode == "barrier") && !s.has("warp")) {
    barrier(s);
  } else {
    return false;
  }
  return true;
}

}  // namespace flashmoe::vgpu::oracle
