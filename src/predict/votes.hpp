// How often the blocks of a kernel ran, by the lines of PTX that their instructions were made of.
//
// A line that stands in a block once says that the block ran as often as the line did. ptxas makes copies of lines: it
// unrolls loops, with what is left over in a loop of its own, and puts the rare case of a division beside the usual
// one. So one line speaks for each block, and all blocks that hold a copy of it share its count.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "predict/blocks.hpp"
#include "predict/ptx_run.hpp"
#include "predict/sass.hpp"

namespace flashmoe::predict {

// What one line became: its instructions of one opcode. Parts of a line that ptxas put into two blocks differ in it,
// and copies do not.
using Part = std::pair<std::uint32_t, std::string_view>;
// By block: how many copies of a part it holds, not more than most lines of the block have: an instruction of PTX may
// have become several of one opcode.
using LineCopies = std::vector<std::map<Part, std::uint32_t>>;
[[nodiscard]] LineCopies line_copies(const SassKernel& kernel, const std::vector<Block>& blocks);

class Votes {
 public:
  struct Speaker {            // a part that speaks for blocks
    double count = 0;         // how often it ran
    double weight = 0;        // SASS instructions of an execution
    std::uint32_t block = 0;  // the largest that it speaks for
  };
  struct Share {
    std::uint32_t speaker = 0;
    double copies = 1;
  };

  Votes(const SassKernel& kernel, const std::vector<Block>& blocks, const LineCopies& copies, const PtxWarp& warp);

  [[nodiscard]] const std::vector<Speaker>& speakers() const { return speakers_; }
  // Whoever speaks for the block, with its copies there; none: no line of it can tell, as in subroutines, whose lines
  // are no one's.
  [[nodiscard]] const std::optional<Share>& speaker_of(std::uint32_t block) const { return of_block_[block]; }
  // Who is heard when the block has run.
  [[nodiscard]] const std::vector<Share>& shares(std::uint32_t block) const { return shares_[block]; }
  // How often it would have run if no other block had a part in it.
  [[nodiscard]] std::optional<double> alone(std::uint32_t block) const;
  // Rounds of the PTX loop that one pass of the block's own branch stands for.
  [[nodiscard]] std::uint32_t rounds(std::uint32_t block) const { return rounds_[block]; }

 private:
  std::vector<Speaker> speakers_{};
  std::vector<std::optional<Share>> of_block_{};
  std::vector<std::vector<Share>> shares_{};
  std::vector<std::uint32_t> rounds_{};
};

}  // namespace flashmoe::predict
