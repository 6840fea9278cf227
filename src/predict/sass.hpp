// What an NVIDIA GPU executes, read from `nvdisasm -c -hex [-gp] CUBIN`: instructions, and beside each the bits with
// which the compiler steers the issue of warps. sm_80 to sm_120; one instruction is 16 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::predict {

// Bits 105 to 125 of an instruction. The layout and its meaning: Huerta et al., "Analyzing Modern NVIDIA GPU cores"
// (arXiv 2503.20481), sections 4 and 5.
struct Control {
  static constexpr std::uint8_t no_barrier = 7;
  std::uint8_t stall = 0;                   // cycles before this warp may issue its next instruction
  bool yield = false;                       // that one does not issue in the very next cycle
  std::uint8_t write_barrier = no_barrier;  // the counter that goes down when the result is there
  std::uint8_t read_barrier = no_barrier;   // and the one that does when the sources have been read
  std::uint8_t wait_mask = 0;               // counters that must be zero before this instruction issues
  std::uint8_t reuse = 0;                   // operands kept beside the register file; costs nothing here

  friend bool operator==(const Control&, const Control&) = default;
};

struct SassInstruction {
  std::uint32_t address = 0;            // in bytes from the start of its section
  std::string guard{};                  // "@!P0"; empty without one
  std::string opcode{};                 // "HMMA.16816.F32"
  std::vector<std::string> operands{};  // as printed
  Control control{};
  std::optional<std::uint32_t> target{};  // index of the instruction that its label names (branches, calls, BSSY)
  std::uint32_t ptx_line = 0;             // 1-based, of the PTX that ptxas read with -lineinfo; 0: unknown

  [[nodiscard]] std::string_view base() const { return std::string_view(opcode).substr(0, opcode.find('.')); }
  [[nodiscard]] bool has(std::string_view modifier) const;  // "128" of LDS.128
};

struct SassKernel {
  std::string name{};
  std::string architecture{};  // "sm_89"
  std::vector<SassInstruction> instructions{};
};

// Every code section of the text. Lines of PTX are there if nvdisasm was asked for them (-gp) and the cubin has them
// (ptxas -lineinfo). `file` is for diagnostics.
[[nodiscard]] Result<std::vector<SassKernel>> parse_sass(std::string_view text, const std::string& file = "nvdisasm");

}  // namespace flashmoe::predict
