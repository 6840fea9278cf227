// A kernel for one machine: of each instruction what the simulation needs, found once for all its executions.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/parameters.hpp"
#include "predict/path.hpp"
#include "predict/sass.hpp"

namespace flashmoe::predict {

struct Operation {
  static constexpr std::uint8_t no_counter = 6;
  Kind kind = Kind::unknown;
  Pipe pipe = Pipe::alu;  // of those kinds that hold one
  std::uint8_t stall = 1;
  std::uint8_t wait_mask = 0;
  std::uint8_t write_counter = no_counter;
  std::uint8_t read_counter = no_counter;
  bool arrives_only = false;        // BAR.ARV
  std::uint8_t barrier = 0;         // its number; 16 where a register names it
  std::uint16_t barrier_warps = 0;  // 0: all of the CTA
  std::uint16_t groups = 0;         // DEPBAR: as many may be incomplete
  std::uint32_t wavefronts = 0;
  std::uint32_t latency = 1;         // to the result, from where the rules of sm.hpp count
  std::uint32_t source_latency = 1;  // until the sources were read
  double interval = 1;
  double l2_clocks = 0;
};

struct Program {
  Machine machine{};
  std::vector<Operation> operations{};  // by instruction
};

// `memory` is empty or has an entry for each instruction.
[[nodiscard]] Program make_program(const SassKernel& kernel, const MemoryShapes& memory, const Machine& machine);

}  // namespace flashmoe::predict
