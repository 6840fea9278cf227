#include "predict/votes.hpp"

#include <algorithm>
#include <array>

namespace flashmoe::predict {
namespace {

// What steers warps, and copies between registers, which join the ends of loops: they stand where ptxas put them,
// whatever line they name.
bool is_of_ptxas(const SassInstruction& instruction) {
  if (instruction.base() == "MOV" || instruction.base() == "UMOV" || instruction.has("MOV")) return true;
  constexpr std::array names{"BSSY", "BSYNC", "BRA", "BRX", "CALL", "RET", "EXIT", "NOP", "WARPSYNC", "BREAK", "YIELD"};
  return std::find(names.begin(), names.end(), instruction.base()) != names.end();
}

bool can_vote(const SassInstruction& instruction) {
  return instruction.ptx_line != 0 && !is_of_ptxas(instruction);
}

std::uint64_t count_of(const PtxWarp& warp, std::uint32_t line) {
  const auto found = warp.executed.find(line);
  return found == warp.executed.end() ? 0 : found->second;
}

Part part_of(const SassInstruction& instruction) {
  return {instruction.ptx_line, instruction.opcode};
}

struct Choice {
  Part part{};
  std::uint32_t copies = 1;
};

// The part that speaks for the block: of those that name the number of runs that most instructions name, the first. Of
// two such numbers the larger: under a guard of its own a line may run less often than its block, never more often.
template <class IsAsked>
std::optional<Choice> speaker_among(const SassKernel& kernel, const Block& block,
                                    const std::map<Part, std::uint32_t>& copies, const PtxWarp& warp,
                                    const IsAsked& is_asked) {
  struct Ballot {
    std::uint32_t instructions = 0;
    Part part{};
  };
  std::map<double, Ballot> ballots;  // by number of runs
  for (std::uint32_t i = block.first; i < block.end; ++i) {
    const SassInstruction& one = kernel.instructions[i];
    if (!can_vote(one) || !is_asked(one)) continue;
    Ballot& ballot = ballots[static_cast<double>(count_of(warp, one.ptx_line)) / copies.at(part_of(one))];
    ballot.part = ballot.instructions == 0 ? part_of(one) : std::min(ballot.part, part_of(one));
    ++ballot.instructions;
  }
  if (ballots.empty()) return {};
  const auto best = std::max_element(ballots.begin(), ballots.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.instructions, a.first) < std::pair(b.second.instructions, b.first);
  });
  return Choice{best->second.part, copies.at(best->second.part)};
}

// Lines that stand nowhere else are asked first. Instructions under a guard last: ptxas turns short branches into
// guards, and what such a line did is not what its block did.
std::optional<Choice> speaker(const SassKernel& kernel, const Block& block, const std::map<Part, std::uint32_t>& copies,
                              const PtxWarp& warp, const std::map<Part, std::uint32_t>& places) {
  for (const bool guarded : {false, true}) {
    for (const bool shared : {false, true}) {
      const auto choice = speaker_among(kernel, block, copies, warp, [&](const SassInstruction& one) {
        return one.guard.empty() != guarded && (places.at(part_of(one)) > 1) == shared;
      });
      if (choice) return choice;
    }
  }
  return {};
}

// The copies that most lines have which run as often as the block's branch: those of its own loop, not of one inside
// it.
std::uint32_t rounds_of(const SassKernel& kernel, const Block& block, const std::map<Part, std::uint32_t>& copies,
                        const PtxWarp& warp) {
  if (!block.is_conditional) return 1;
  const std::uint64_t count = count_of(warp, kernel.instructions[block.last()].ptx_line);
  std::map<std::uint32_t, std::uint32_t> ballots;
  for (std::uint32_t i = block.first; i < block.end; ++i) {
    const SassInstruction& one = kernel.instructions[i];
    if (can_vote(one) && count_of(warp, one.ptx_line) == count) ++ballots[copies.at(part_of(one))];
  }
  const auto most = std::max_element(ballots.begin(), ballots.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == ballots.end() ? 1 : most->first;
}

}  // namespace

LineCopies line_copies(const SassKernel& kernel, const std::vector<Block>& blocks) {
  LineCopies all;
  for (const Block& block : blocks) {
    std::map<Part, std::uint32_t>& copies = all.emplace_back();
    for (std::uint32_t i = block.first; i < block.end; ++i)
      if (can_vote(kernel.instructions[i])) ++copies[part_of(kernel.instructions[i])];
    if (copies.empty()) continue;
    std::map<std::uint32_t, std::uint32_t> least;  // by line
    for (const auto& [part, times] : copies) {
      const auto known = least.emplace(part.first, times).first;
      known->second = std::min(known->second, times);
    }
    std::map<std::uint32_t, std::uint32_t> lines_with;
    for (const auto& [line, times] : least) ++lines_with[times];
    const std::uint32_t usual =
        std::max_element(lines_with.begin(), lines_with.end(), [](const auto& x, const auto& y) {
          return x.second < y.second;
        })->first;
    for (auto& [part, times] : copies) times = std::min(times, usual);
  }
  return all;
}

Votes::Votes(const SassKernel& kernel, const std::vector<Block>& blocks, const LineCopies& copies,
             const PtxWarp& warp) {
  const std::vector<bool> reachable = reachable_blocks(blocks);
  std::map<Part, std::uint32_t> places;  // blocks that hold it
  for (const auto& parts : copies)
    for (const auto& [part, times] : parts) ++places[part];
  std::map<Part, std::uint32_t> by_part;
  for (std::uint32_t at = 0; at < blocks.size(); ++at) {
    rounds_.push_back(rounds_of(kernel, blocks[at], copies[at], warp));
    const auto choice = reachable[at] && !blocks[at].is_subroutine
                            ? speaker(kernel, blocks[at], copies[at], warp, places)
                            : std::optional<Choice>{};
    of_block_.emplace_back();
    if (!choice) continue;
    const auto [known, is_new] = by_part.emplace(choice->part, static_cast<std::uint32_t>(speakers_.size()));
    if (is_new)
      speakers_.push_back({.count = static_cast<double>(count_of(warp, choice->part.first)), .weight = 0, .block = at});
    Speaker& one = speakers_[known->second];
    const double weight = static_cast<double>(blocks[at].size()) / choice->copies;
    if (weight > one.weight) one.block = at;
    one.weight = std::max(one.weight, weight);
    of_block_.back() = Share{known->second, static_cast<double>(choice->copies)};
  }
  for (const auto& parts : copies) {
    std::vector<Share>& heard = shares_.emplace_back();
    for (const auto& [part, times] : parts)
      if (const auto found = by_part.find(part); found != by_part.end())
        heard.push_back({found->second, static_cast<double>(times)});
  }
}

std::optional<double> Votes::alone(std::uint32_t block) const {
  if (!of_block_[block]) return {};
  return speakers_[of_block_[block]->speaker].count / of_block_[block]->copies;
}

}  // namespace flashmoe::predict
