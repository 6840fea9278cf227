// What one instruction sees of one thread: its operands as bits of a width, its types, its modifiers.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "vgpu/oracle/machine.hpp"
#include "vgpu/oracle/number.hpp"

namespace flashmoe::vgpu::oracle {

[[nodiscard]] inline Bits mask_of(int bits) {
  return bits >= 128 ? ~Bits{0} : (Bits{1} << bits) - 1;
}
using Signed = __int128;
[[nodiscard]] inline Signed sign_extend(Bits value, int bits) {
  return static_cast<Signed>(value << (128 - bits)) >> (128 - bits);
}

class Step {
 public:
  Step(Machine& of_machine, Thread& of_thread, const ptx::Instruction& this_instruction)
      : machine(of_machine), thread(of_thread), instruction(this_instruction) {}

  Machine& machine;
  Thread& thread;
  const ptx::Instruction& instruction;

  [[nodiscard]] bool has(std::string_view modifier) const;
  // The n-th type among the modifiers; negative counts from the end.
  [[nodiscard]] std::string_view type(int n = -1) const;
  [[nodiscard]] Round round() const;  // .rn when none is written
  [[nodiscard]] std::size_t operands() const { return instruction.operands.size(); }
  [[nodiscard]] const ptx::Operand& operand(std::size_t i) const { return instruction.operands.at(i); }

  // Operand i as `type` wants it: immediates of a floating-point type are converted to it (PTX ISA 4.5).
  [[nodiscard]] Bits read(std::size_t i, std::string_view type) const { return read(operand(i), type); }
  [[nodiscard]] Bits read(const ptx::Operand& operand, std::string_view type) const;
  [[nodiscard]] bool predicate(std::size_t i) const { return predicate(operand(i)); }
  [[nodiscard]] bool predicate(const ptx::Operand& operand) const;
  [[nodiscard]] bool is_guarded_off() const;  // its guard says no
  // [a + offset] as a generic address.
  [[nodiscard]] std::uint64_t address(std::size_t i, std::string_view space) const;
  [[nodiscard]] std::string_view space() const;  // of a memory instruction; "" is generic

  void write(std::size_t i, Bits value) { write(operand(i), value); }
  void write(const ptx::Operand& operand, Bits value);
  // A signed result goes into a wider register with its sign (PTX ISA 9.4.1).
  void write_as(const ptx::Operand& operand, std::string_view type, Bits value);

  [[noreturn]] void unknown(std::string_view why) const;

 private:
  [[nodiscard]] Bits identifier(const std::string& name, bool minus) const;
};

// The parts of {a, b, ...}; anything else is its only part.
[[nodiscard]] std::span<const ptx::Operand> elements(const ptx::Operand& operand);

// The value of %tid.x and its like; false: no special register of that name.
[[nodiscard]] bool special_register(Step& step, const std::string& name, Bits& value);

// Returns false if the opcode is not of this group.
[[nodiscard]] bool integer_op(Step& step);
[[nodiscard]] bool logic_op(Step& step);
[[nodiscard]] bool float_op(Step& step);
[[nodiscard]] bool compare_op(Step& step);
[[nodiscard]] bool convert_op(Step& step);
[[nodiscard]] bool move_op(Step& step);
[[nodiscard]] bool memory_op(Step& step);
[[nodiscard]] bool mbarrier_op(Step& step);
void land_copies(Step& step);               // all that the thread has issued
[[nodiscard]] bool control_op(Step& step);  // moves the pc itself

// Warp-wide instructions. The mask of lanes that have to arrive; false: the instruction is not warp-wide.
[[nodiscard]] bool is_collective(const ptx::Instruction& instruction);
[[nodiscard]] std::uint32_t member_mask(Step& step);
// Runs it for all lanes at once. `lanes[i]` is nullptr where the lane takes no part.
void collective_op(Machine& machine, const std::array<Thread*, 32>& lanes, const ptx::Instruction& instruction);
void matrix_op(Machine& machine, const std::array<Thread*, 32>& lanes, const ptx::Instruction& instruction);

}  // namespace flashmoe::vgpu::oracle
