// Which bits of a frame's registers were never defined. Clean code pays one mask per register; single bits are kept
// only once a value is defined in part.
#pragma once

#include <cstdint>
#include <vector>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::observe {

class RegisterPoison {
 public:
  // A frame begins: every register but the constants is undefined.
  void begin(const ir::Function& function);

  [[nodiscard]] std::uint32_t lanes(std::uint32_t slot) const { return poisoned_[slot]; }
  [[nodiscard]] std::uint32_t predicate(std::uint32_t index) const { return predicates_[index]; }
  // Code that met no undefined value and left none meets none again until one comes up: that much is told by a bit.
  [[nodiscard]] bool is_settled(std::uint32_t pc) const {
    return pc / 64 < settled_.size() && (settled_[pc / 64] >> pc % 64 & 1) != 0;
  }
  void settle(std::uint32_t pc);

  void define(std::uint32_t slot, std::uint32_t lanes) { poisoned_[slot] &= ~lanes; }
  void define_predicate(std::uint32_t index, std::uint32_t lanes) { predicates_[index] &= ~lanes; }
  void poison(std::uint32_t slot, std::uint32_t lanes, std::uint32_t origin);
  void poison_predicate(std::uint32_t index, std::uint32_t lanes, std::uint32_t origin);

  // Undefined bits of a lane; a wide register is `slot` (low half) and the slot behind it.
  [[nodiscard]] std::uint32_t bits(std::uint32_t slot, int lane) const {
    if ((poisoned_[slot] >> lane & 1) == 0) return 0;
    return (partial_[slot] >> lane & 1) == 0 ? 0xffffffffu
                                             : bits_[std::size_t{slot} * 32 + static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] std::uint64_t wide_bits(std::uint32_t slot, int lane) const {
    return bits(slot, lane) | std::uint64_t{bits(slot + 1, lane)} << 32;
  }
  void set(std::uint32_t slot, int lane, std::uint32_t bits, std::uint32_t origin);
  void set_wide(std::uint32_t slot, int lane, std::uint64_t bits, std::uint32_t origin) {
    set(slot, lane, static_cast<std::uint32_t>(bits), origin);
    set(slot + 1, lane, static_cast<std::uint32_t>(bits >> 32), origin);
  }

  // The instruction that brought the undefined bits in; no_slot: the register was never written.
  [[nodiscard]] std::uint32_t origin(std::uint32_t slot) const { return origin_[slot]; }
  [[nodiscard]] std::uint32_t predicate_origin(std::uint32_t index) const { return predicate_origin_[index]; }

 private:
  void come_up(std::uint32_t& mask, std::uint32_t lanes);

  std::vector<std::uint32_t> poisoned_{}, partial_{}, predicates_{};  // lane masks
  std::vector<std::uint32_t> origin_{}, predicate_origin_{};
  std::vector<std::uint32_t> bits_{};     // [slot][lane], where partial_ says so
  std::vector<std::uint64_t> settled_{};  // bit per pc
};

}  // namespace flashmoe::vgpu::observe
