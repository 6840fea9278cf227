#include "vgpu/observe/store_value.hpp"

#include <cstring>

namespace flashmoe::vgpu::observe {

bool store_value(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, int lane,
                 std::array<std::uint8_t, 32>& bytes) {
  const ir::Form& form = warp.kernel->info[pc].form;
  if (form.opcode != "st") return false;
  const auto size = static_cast<std::size_t>(ir::bits_of(form.last_type())) / 8;
  const auto count = static_cast<std::size_t>(form.vector);
  if (size == 0 || size > 8 || size * count > bytes.size()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t slot = inst.list != ir::no_slot ? warp.kernel->lists[inst.list + i] : inst.b;
    if (slot == ir::no_slot) return false;
    std::uint64_t value = size == 8 ? warp.lanes<std::uint64_t>(slot)[lane] : warp.slot(slot)[lane];
    std::memcpy(bytes.data() + i * size, &value, size);
  }
  return true;
}

}  // namespace flashmoe::vgpu::observe
