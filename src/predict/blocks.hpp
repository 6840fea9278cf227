// The control flow of a kernel's SASS: stretches of instructions that run from their first to their last.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "predict/sass.hpp"

namespace flashmoe::predict {

// How a block goes on. `conditional` ones have two ways: the target (for exits: none, the warp ends), and the next
// block.
enum class Ending : std::uint8_t {
  falls,    // into the next block
  jumps,    // BRA
  exits,    // EXIT
  calls,    // CALL of a subroutine, whose RET comes back to the next block. One that leads to no RET is a jump
  returns,  // RET
  opens,    // BSSY: lanes that part now meet again at the BSYNC of the same register
  meets,    // BSYNC
  lost,     // a jump through a register
};

struct Block {
  std::uint32_t first = 0, end = 0;  // instructions; end is not in it
  Ending ending = Ending::falls;
  bool is_conditional = false;            // of jumps, exits and calls
  std::optional<std::uint32_t> target{};  // block
  bool is_subroutine = false;             // it leads to a RET: the rare case of a division, a function

  [[nodiscard]] std::uint32_t last() const { return end - 1; }
  [[nodiscard]] std::uint32_t size() const { return end - first; }
  // Whether the next block is one of its ways. A call's is not: that comes back there later.
  [[nodiscard]] bool leads_to_next() const {
    return is_conditional || ending == Ending::falls || ending == Ending::opens || ending == Ending::meets;
  }
};

[[nodiscard]] std::vector<Block> blocks_of(const SassKernel& kernel);

// By block: whether the kernel's entry leads to it. What only lanes that parted inside a shuffle run is not.
[[nodiscard]] std::vector<bool> reachable_blocks(const std::vector<Block>& blocks);

}  // namespace flashmoe::predict
