#include "predict/program.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace flashmoe::predict {
namespace {

constexpr int warp_lanes = 32;
constexpr int bank_bytes = 128;  // of all banks, and of a line of L1

std::optional<unsigned> hex_operand(const SassInstruction& instruction, std::size_t index) {
  if (index >= instruction.operands.size()) return {};
  std::string_view text = instruction.operands[index];
  if (!text.starts_with("0x")) return {};
  text.remove_prefix(2);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// Of one lane.
int bytes_of(const SassInstruction& instruction) {
  if (instruction.base() == "LDSM" || instruction.base() == "STSM")
    return instruction.opcode.ends_with(".4") ? 16 : instruction.opcode.ends_with(".2") ? 8 : 4;
  if (instruction.has("256")) return 32;
  if (instruction.has("128")) return 16;
  if (instruction.has("64")) return 8;
  if (instruction.has("U16") || instruction.has("S16")) return 2;
  if (instruction.has("U8") || instruction.has("S8")) return 1;
  return 4;
}

bool is_store(const SassInstruction& instruction) {
  const std::string_view base = instruction.base();
  return base.starts_with("ST") || base.starts_with("RED") || base.starts_with("ATOM");
}

// Per m16n8k16 with fp32 accumulation, by type: half the multiply-adds for TF32; twice as many with 8-bit and four
// times as many with 4-bit operands, and again twice where half the operands are zero.
double tensor_interval(const SassInstruction& instruction, const Machine& machine) {
  const std::string_view base = instruction.base();
  const bool wide_sum = base != "IMMA" && instruction.has("F32");
  double interval = (wide_sum ? machine.tensor_interval : machine.tensor_interval_full_rate) * tensor_size(instruction);
  if (instruction.has("TF32")) interval *= 2;
  if (base == "IMMA" || base == "QMMA") interval /= instruction.has("S4") || instruction.has("U4") ? 4 : 2;
  if (base == "OMMA") interval /= 4;
  if (instruction.has("SP")) interval /= 2;
  return interval;
}

void set_memory(Operation& operation, const SassInstruction& instruction, const MemoryShape& shape,
                const Machine& machine) {
  const Parameters& facts = machine.parameters;
  const int bytes = bytes_of(instruction);
  const bool is_global = operation.kind == Kind::global || operation.kind == Kind::async_copy;
  const double width = std::max(1.0, static_cast<double>(bytes) * warp_lanes / bank_bytes);
  const double given = shape.wavefronts >= 0 ? shape.wavefronts : width;
  const double least = is_global || operation.kind == Kind::local ? facts.global_wavefronts.value : 1;
  operation.wavefronts = static_cast<std::uint32_t>(std::lround(std::max(given, least)));
  double latency = facts.shared_latency.value;
  double sources = facts.shared_load_sources.value;
  const double registers = std::max(1.0, bytes / 4.0);
  switch (operation.kind) {
    case Kind::shuffle:
      // As many results a clock as the table says hold the port as long.
      operation.wavefronts =
          static_cast<std::uint32_t>(std::lround(std::max(1.0, warp_lanes / machine.architecture.rates.shuffle.value)));
      latency = facts.shuffle_latency.value;
      break;
    case Kind::local:
      latency = facts.local_latency.value;
      break;
    case Kind::global:
    case Kind::async_copy:
      latency = machine.global_latency;
      sources = operation.kind == Kind::global ? facts.global_load_sources.value : facts.async_copy_sources.value;
      operation.l2_clocks =
          (shape.l2_bytes >= 0 ? shape.l2_bytes : static_cast<double>(bytes) * warp_lanes) / machine.l2_bytes_per_clock;
      break;
    default:
      if (instruction.base() == "LDSM") latency = facts.matrix_load_latency.value;
  }
  if (is_store(instruction))
    sources = (is_global ? facts.global_store_sources.value : facts.shared_store_sources.value) +
              facts.store_register_sources.value * registers;
  operation.latency = static_cast<std::uint32_t>(std::lround(latency));
  operation.source_latency = static_cast<std::uint32_t>(std::lround(sources));
}

void set_barrier(Operation& operation, const SassInstruction& instruction) {
  constexpr unsigned named_by_register = 16;
  operation.arrives_only = instruction.has("ARV");
  const auto number = hex_operand(instruction, 0);
  operation.barrier = static_cast<std::uint8_t>(std::min(number.value_or(named_by_register), named_by_register));
  operation.barrier_warps = static_cast<std::uint16_t>(hex_operand(instruction, 1).value_or(0) / warp_lanes);
}

Pipe pipe_of(Kind kind) {
  switch (kind) {
    case Kind::tensor:
      return Pipe::tensor;
    case Kind::fma:
    case Kind::fp16:
      return Pipe::fma;
    case Kind::fma_heavy:
      return Pipe::fma_heavy;
    case Kind::fp64:
      return Pipe::fp64;
    case Kind::conversion:
    case Kind::transcendental:
      return Pipe::xu;
    case Kind::uniform:
      return Pipe::uniform;
    default:
      return Pipe::alu;
  }
}

Operation make_operation(const SassInstruction& instruction, const MemoryShape& shape, const Machine& machine) {
  const Control& control = instruction.control;
  const Parameters& facts = machine.parameters;
  Operation operation{.kind = kind_of(instruction)};
  operation.pipe = pipe_of(operation.kind);
  operation.stall = std::max<std::uint8_t>(control.stall, control.yield ? 2 : 1);
  operation.wait_mask = control.wait_mask;
  operation.write_counter = std::min(control.write_barrier, Operation::no_counter);
  operation.read_counter = std::min(control.read_barrier, Operation::no_counter);
  operation.interval = machine.interval(operation.kind);
  switch (operation.kind) {
    case Kind::tensor:
      operation.interval = tensor_interval(instruction, machine);
      break;
    case Kind::conversion:
    case Kind::transcendental:
      operation.latency = static_cast<std::uint32_t>(facts.transcendental_latency.value);
      operation.source_latency = static_cast<std::uint32_t>(facts.transcendental_sources.value);
      break;
    case Kind::special:
      operation.latency = static_cast<std::uint32_t>(facts.special_latency.value);
      break;
    case Kind::constant:
      operation.latency = static_cast<std::uint32_t>(facts.constant_latency.value);
      break;
    case Kind::shared:
    case Kind::shuffle:
    case Kind::global:
    case Kind::local:
    case Kind::async_copy:
      set_memory(operation, instruction, shape, machine);
      break;
    case Kind::wait_counters:
      operation.groups = static_cast<std::uint16_t>(hex_operand(instruction, 1).value_or(0));
      break;
    case Kind::barrier:
      set_barrier(operation, instruction);
      break;
    default:
      break;
  }
  return operation;
}

}  // namespace

Program make_program(const SassKernel& kernel, const MemoryShapes& memory, const Machine& machine) {
  Program program{.machine = machine};
  program.operations.reserve(kernel.instructions.size());
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i)
    program.operations.push_back(
        make_operation(kernel.instructions[i], i < memory.size() ? memory[i] : MemoryShape{}, machine));
  return program;
}

}  // namespace flashmoe::predict
