#include "predict/blocks.hpp"

#include <algorithm>
#include <string_view>

namespace flashmoe::predict {
namespace {

// "@PT" and no guard at all are the same.
bool has_guard(const SassInstruction& instruction) {
  return !instruction.guard.empty() && instruction.guard != "@PT" && instruction.guard != "@UPT";
}

// "BRA P0, target", "BRA.U !UP1, target": a second condition, among the operands.
bool has_predicate_operand(const SassInstruction& instruction) {
  for (const std::string& text : instruction.operands) {
    std::string_view name = text;
    if (name.starts_with('!')) name.remove_prefix(1);
    if (name.starts_with('U')) name.remove_prefix(1);
    if (name.size() == 2 && name[0] == 'P' && name[1] >= '0' && name[1] <= '9') return true;
  }
  return false;
}

struct End {
  Ending ending = Ending::falls;
  bool is_conditional = false;
};

End end_of(const SassInstruction& instruction) {
  const std::string_view base = instruction.base();
  if (instruction.guard == "@!PT" || instruction.guard == "@!UPT") return {};
  // Warps whose lanes have parted go out of line for a shuffle or a vote: BRA.DIV is not taken by whole ones.
  if (base == "BRA" && instruction.has("DIV")) return {};
  const bool is_conditional = has_guard(instruction) || has_predicate_operand(instruction);
  if (base == "BRA" || base == "JMP") return {instruction.target ? Ending::jumps : Ending::lost, is_conditional};
  if (base == "EXIT" || base == "KILL") return {Ending::exits, is_conditional};
  if (base == "CALL") return {instruction.target ? Ending::calls : Ending::falls, is_conditional};
  if (base == "RET") return {Ending::returns, false};
  if (base == "BRX" || base == "BRXU" || base == "JMX") return {Ending::lost, is_conditional};
  if (base == "BSSY") return {Ending::opens, false};
  if (base == "BSYNC") return {Ending::meets, false};
  return {};
}

// A kernel ends in EXIT: what leads to a RET, other than by a call, belongs to a subroutine.
void mark_subroutines(std::vector<Block>& blocks) {
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (std::size_t i = blocks.size(); i-- > 0;) {
      Block& block = blocks[i];
      if (block.is_subroutine) continue;
      const bool leads = (block.ending == Ending::returns) ||
                         (block.leads_to_next() && i + 1 < blocks.size() && blocks[i + 1].is_subroutine) ||
                         (block.ending == Ending::jumps && block.target && blocks[*block.target].is_subroutine);
      block.is_subroutine = leads;
      has_changed = has_changed || leads;
    }
  }
  for (Block& block : blocks)
    if (block.ending == Ending::calls && !blocks[*block.target].is_subroutine) block.ending = Ending::jumps;
}

}  // namespace

std::vector<Block> blocks_of(const SassKernel& kernel) {
  const auto count = static_cast<std::uint32_t>(kernel.instructions.size());
  std::vector<bool> leads(count + 1, false);
  std::vector<End> ends(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const SassInstruction& instruction = kernel.instructions[i];
    ends[i] = end_of(instruction);
    if (ends[i].ending != Ending::falls) leads[i + 1] = true;
    if (ends[i].ending != Ending::falls && instruction.target && *instruction.target < count)
      leads[*instruction.target] = true;
  }
  std::vector<Block> blocks;
  std::vector<std::uint32_t> block_at(count, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i == 0 || leads[i]) blocks.push_back({.first = i, .end = i});
    block_at[i] = static_cast<std::uint32_t>(blocks.size()) - 1;
    blocks.back().end = i + 1;
  }
  for (Block& block : blocks) {
    const SassInstruction& last = kernel.instructions[block.last()];
    block.ending = ends[block.last()].ending;
    block.is_conditional = ends[block.last()].is_conditional;
    if (block.ending != Ending::falls && last.target && *last.target < count) block.target = block_at[*last.target];
    const bool needs_target = block.ending == Ending::jumps || block.ending == Ending::calls;
    if (needs_target && !block.target) block.ending = Ending::lost;
  }
  mark_subroutines(blocks);
  return blocks;
}

std::vector<bool> reachable_blocks(const std::vector<Block>& blocks) {
  std::vector<bool> reached(blocks.size(), false);
  std::vector<std::size_t> open;
  const auto reach = [&](std::size_t block) {
    if (block >= blocks.size() || reached[block]) return;
    reached[block] = true;
    open.push_back(block);
  };
  // Nobody can say where a jump through a register leads.
  const bool is_lost =
      std::any_of(blocks.begin(), blocks.end(), [](const Block& one) { return one.ending == Ending::lost; });
  for (std::size_t i = 0; i < (is_lost ? blocks.size() : 1); ++i) reach(i);
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    const Block& block = blocks[at];
    if (block.leads_to_next() || block.ending == Ending::calls) reach(at + 1);
    if (block.target && block.ending != Ending::opens) reach(*block.target);
  }
  return reached;
}

}  // namespace flashmoe::predict
