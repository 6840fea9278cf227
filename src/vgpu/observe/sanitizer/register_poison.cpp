#include "vgpu/observe/sanitizer/register_poison.hpp"

namespace flashmoe::vgpu::observe {

void RegisterPoison::begin(const ir::Function& function) {
  poisoned_.assign(function.slots, 0xffffffffu);
  partial_.assign(function.slots, 0);
  predicates_.assign(function.predicates, 0xffffffffu);
  origin_.assign(function.slots, ir::no_slot);
  predicate_origin_.assign(function.predicates, ir::no_slot);
  for (const ir::Constant& constant : function.constants) {
    poisoned_[constant.slot] = 0;
    if (constant.wide) poisoned_[constant.slot + 1] = 0;
  }
  for (const std::uint32_t index : function.true_predicates) predicates_[index] = 0;
  settled_.clear();
}

void RegisterPoison::settle(std::uint32_t pc) {
  if (pc / 64 >= settled_.size()) settled_.resize(pc / 64 + 1);
  settled_[pc / 64] |= std::uint64_t{1} << pc % 64;
}

void RegisterPoison::come_up(std::uint32_t& mask, std::uint32_t lanes) {
  if ((lanes & ~mask) != 0) settled_.clear();
  mask |= lanes;
}

void RegisterPoison::poison(std::uint32_t slot, std::uint32_t lanes, std::uint32_t origin) {
  if (lanes == 0) return;
  come_up(poisoned_[slot], lanes);
  partial_[slot] &= ~lanes;
  origin_[slot] = origin;
}

void RegisterPoison::poison_predicate(std::uint32_t index, std::uint32_t lanes, std::uint32_t origin) {
  if (lanes == 0) return;
  come_up(predicates_[index], lanes);
  predicate_origin_[index] = origin;
}

void RegisterPoison::set(std::uint32_t slot, int lane, std::uint32_t bits, std::uint32_t origin) {
  if (slot == ir::no_slot) return;  // `_`: nobody keeps it
  const std::uint32_t lane_bit = 1u << lane;
  if (bits == 0) {
    poisoned_[slot] &= ~lane_bit;
    return;
  }
  come_up(poisoned_[slot], lane_bit);
  origin_[slot] = origin;
  if (bits == 0xffffffffu) {
    partial_[slot] &= ~lane_bit;
    return;
  }
  if (bits_.empty()) bits_.resize(poisoned_.size() * 32);
  partial_[slot] |= lane_bit;
  bits_[std::size_t{slot} * 32 + static_cast<std::size_t>(lane)] = bits;
}

}  // namespace flashmoe::vgpu::observe
