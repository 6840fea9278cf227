// What an instruction occupies: one table from opcodes to pipes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "predict/sass.hpp"

namespace flashmoe::predict {

// Those of a sub-partition, each counted there, and below `port` those that all four share.
enum class Pipe : std::uint8_t {
  tensor,
  fma,        // floating point, packed halves too: either half of it
  fma_heavy,  // integer multiplication: the half that can
  fp64,
  alu,
  xu,  // transcendental functions and conversions
  uniform,
  memory,  // its way into the queue of the memory instructions
  port,    // shared memory and L1: one for the SM
  l2,      // the SM's share of what L2 delivers
};
inline constexpr std::size_t pipes = 10;
[[nodiscard]] std::string_view name_of(Pipe pipe);

enum class Kind : std::uint8_t {
  control,  // costs its issue slot: branches, NOP, EXIT, and what a guard of @!PT switches off
  tensor,
  fma,
  fma_heavy,
  fp16,
  fp64,
  alu,
  add,  // integer addition, which sm_120 does twice as fast as other integer instructions
  conversion,
  transcendental,
  uniform,
  special,   // S2R and its like: a result later, nothing held
  constant,  // LDC
  shared,
  shuffle,
  global,
  local,
  async_copy,     // LDGSTS: global to shared memory, awaited by groups
  async_commit,   // LDGDEPBAR: closes a group
  wait_counters,  // DEPBAR: waits until a counter is at most ...
  barrier,        // BAR
  unsupported,    // known, but nothing here can say how long it takes: wgmma, TMA, mbarrier, tcgen05
  unknown,        // no row: a prediction widens or abstains by its weight
};
inline constexpr std::size_t kinds = 23;
[[nodiscard]] std::string_view name_of(Kind kind);

[[nodiscard]] Kind kind_of(const SassInstruction& instruction);

// Multiply-adds of a tensor instruction over those of m16n8k16, from its shape; 0 when it names none.
[[nodiscard]] double tensor_size(const SassInstruction& instruction);

}  // namespace flashmoe::predict
