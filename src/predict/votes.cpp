#include "predict/votes.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace flashmoe::predict {
namespace {

// The count that most instructions name; of equals the larger one: a line may run less often than its block, under a
// guard of its own, and never more often.
double majority(const std::map<std::uint64_t, std::uint32_t>& ballots) {
  double best = no_vote;
  std::uint32_t most = 0;
  for (const auto& [count, instructions] : ballots) {
    if (instructions < most) continue;
    most = instructions;
    best = static_cast<double>(count);
  }
  return best;
}

// What steers warps, and copies between registers, which join the ends of loops: they stand where ptxas put them,
// whatever line they name.
bool is_of_ptxas(const SassInstruction& instruction) {
  if (instruction.base() == "MOV" || instruction.base() == "UMOV" || instruction.has("MOV")) return true;
  constexpr std::array names{"BSSY", "BSYNC", "BRA", "BRX", "CALL", "RET", "EXIT", "NOP", "WARPSYNC", "BREAK", "YIELD"};
  return std::find(names.begin(), names.end(), instruction.base()) != names.end();
}

}  // namespace

std::vector<double> votes_of(const SassKernel& kernel, const std::vector<Block>& blocks, const PtxWarp& warp) {
  std::vector<double> votes;
  const std::vector<bool> reachable = reachable_blocks(blocks);
  for (const Block& block : blocks) {
    if (!reachable[votes.size()]) {
      votes.push_back(no_vote);
      continue;
    }
    std::map<std::uint64_t, std::uint32_t> free, guarded;
    for (std::uint32_t i = block.first; i < block.end; ++i) {
      const SassInstruction& instruction = kernel.instructions[i];
      if (instruction.ptx_line == 0 || is_of_ptxas(instruction)) continue;
      const auto found = warp.executed.find(instruction.ptx_line);
      const std::uint64_t count = found == warp.executed.end() ? 0 : found->second;
      ++(instruction.guard.empty() ? free : guarded)[count];
    }
    votes.push_back(majority(free.empty() ? guarded : free));
  }
  return votes;
}

}  // namespace flashmoe::predict
