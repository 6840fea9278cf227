#include "vgpu/observe/store_value.hpp"

#include <cstring>
#include <type_traits>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

template <class T>
std::uint32_t unchanged(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, std::size_t count) {
  using Register = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const bool is_shared = access.space == ir::Space::shared;
  const std::uint64_t begin = is_shared ? 0 : warp.global_base;
  const std::uint64_t size = is_shared ? warp.cta->shared.size() : warp.global_bytes;
  const std::uint64_t host = is_shared ? reinterpret_cast<std::uint64_t>(warp.cta->shared.data()) : warp.global_base;
  std::uint32_t same = 0;
  for_each_lane(access.lanes, [&](int lane) {
    const std::uint64_t offset = access.address[lane] - begin;
    const bool inside = offset < size && access.bytes <= size - offset;
    same |= inside ? 1u << lane : 0u;
  });
  for (std::size_t i = 0; i < count && same != 0; ++i) {
    const std::uint32_t slot = inst.list != ir::no_slot ? warp.kernel->lists[inst.list + i] : inst.b;
    if (slot == ir::no_slot) return 0;
    const Register* const value = warp.lanes<Register>(slot);
    for_each_lane(same, [&](int lane) {
      T there;
      std::memcpy(&there, reinterpret_cast<const void*>(host + access.address[lane] - begin + i * sizeof(T)),
                  sizeof(T));
      if (there != static_cast<T>(value[lane])) same &= ~(1u << lane);
    });
  }
  return same;
}

}  // namespace

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

std::uint32_t unchanged_lanes(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access) {
  const ir::Form& form = warp.kernel->info[access.pc].form;
  if (form.opcode != "st") return 0;
  const auto count = static_cast<std::size_t>(form.vector);
  switch (ir::bits_of(form.last_type())) {
    case 8:
      return unchanged<std::uint8_t>(warp, inst, access, count);
    case 16:
      return unchanged<std::uint16_t>(warp, inst, access, count);
    case 32:
      return unchanged<std::uint32_t>(warp, inst, access, count);
    case 64:
      return unchanged<std::uint64_t>(warp, inst, access, count);
    default:
      return 0;
  }
}

}  // namespace flashmoe::vgpu::observe
