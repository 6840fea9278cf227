// tex, suld and sust (PTX ISA 9.7.10.3, 9.7.11.1, 9.7.11.2) of 1 to 3 dimensions. What lies outside is the address
// mode's or the clamp modifier's to say, no error; a handle that is none is one.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/memory_parts.hpp"
#include "vgpu/exec/texture.hpp"

namespace flashmoe::vgpu::exec {
namespace {

const Texture* find(Warp& warp, std::uint64_t handle, int lane) {
  const Textures& all = texture_objects();
  if (const auto found = all.find(handle); found != all.end()) return &found->second;
  raise(warp, Fault::Kind::illegal_address, fmt::format("{:#x} is no texture or surface object", handle), lane, handle);
  return nullptr;
}

void gone(Warp& warp, const Texture& texture, int lane) {
  raise(warp, Fault::Kind::illegal_address, "the memory of the texture or surface is gone", lane, texture.address);
}

std::uint32_t slot(const Warp& warp, const ir::Inst& inst, int index) {
  return warp.kernel->lists[inst.list + static_cast<std::uint32_t>(index)];
}

// Four results, then the coordinates; in three dimensions a fourth that nobody reads.
template <int dimensions, class Coordinate>
void fetch_texels(Warp& warp, const ir::Inst& inst) {
  constexpr int results = 4;
  const std::uint64_t* const handles = warp.lanes<std::uint64_t>(inst.a);
  Texel texels[lanes_per_warp];
  for_each_lane(warp.exec, [&](int lane) {
    const Texture* const texture = warp.leave ? nullptr : find(warp, handles[lane], lane);
    if (texture == nullptr) return;
    std::array<std::conditional_t<std::is_same_v<Coordinate, float>, float, std::int64_t>, 3> at{};
    for (int i = 0; i < dimensions; ++i)
      at[static_cast<std::size_t>(i)] = warp.lanes<Coordinate>(slot(warp, inst, results + i))[lane];
    if (!fetch(*texture, *warp.cta->grid->memory, at, texels[lane])) gone(warp, *texture, lane);
  });
  if (warp.leave) return;
  for (int c = 0; c < results; ++c) {
    const std::uint32_t to = slot(warp, inst, c);
    if (to == ir::no_slot) continue;
    std::uint32_t* const values = warp.lanes<std::uint32_t>(to);
    for_each_lane(warp.exec, [&](int lane) { values[lane] = texels[lane][static_cast<std::size_t>(c)]; });
  }
}

enum class Outside : std::uint8_t { trap, clamp, zero };

// The host address of an element, x counted in bytes. 0: outside, and nothing is read or written.
template <int dimensions, Outside outside>
std::uint64_t place(Warp& warp, const ir::Inst& inst, const Texture& surface, int first, std::uint32_t bytes,
                    int lane) {
  std::uint64_t address = surface.address;
  for (int i = 0; i < dimensions; ++i) {
    const auto which = static_cast<std::size_t>(i);
    std::int64_t at = warp.lanes<std::int32_t>(slot(warp, inst, first + i))[lane];
    const std::int64_t unit = i == 0 ? bytes : 1;
    const auto extent = static_cast<std::int64_t>(surface.extent[which]) * (i == 0 ? surface.texel_bytes() : 1);
    if (i == 0 && at % unit != 0) {
      raise(warp, Fault::Kind::misaligned_address, fmt::format("x is {}, no multiple of {} bytes", at, bytes), lane, 0);
      return 0;
    }
    if (at < 0 || at > extent - unit) {
      if constexpr (outside == Outside::trap) {
        raise(warp, Fault::Kind::illegal_address,
              fmt::format("coordinate {} of the surface is {}, outside of 0 to {}", i, at, extent - unit), lane, 0);
        return 0;
      }
      if constexpr (outside == Outside::zero) return 0;
      at = at < 0 ? 0 : extent - unit;
    }
    address += static_cast<std::uint64_t>(at) * (i == 0 ? 1 : i == 1 ? surface.row_bytes : surface.slice_bytes);
  }
  if (!warp.cta->grid->memory->is_mapped(address, bytes)) {
    gone(warp, surface, lane);
    return 0;
  }
  return address;
}

// A register of 8 or 16 bits lies in a 32-bit slot. The vector's registers are in the list, a single one is not.
template <int dimensions, Outside outside, class T, int count, bool stores>
void access_surface(Warp& warp, const ir::Inst& inst) {
  using Slot = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  constexpr int coordinates = stores || count == 1 ? 0 : count;  // where they begin in the list
  constexpr int written = dimensions == 3 ? 4 : dimensions;
  const std::uint64_t* const handles = warp.lanes<std::uint64_t>(inst.a);
  for_each_lane(warp.exec, [&](int lane) {
    const Texture* const surface = warp.leave ? nullptr : find(warp, handles[lane], lane);
    if (surface == nullptr) return;
    const std::uint64_t at = place<dimensions, outside>(warp, inst, *surface, coordinates, sizeof(T) * count, lane);
    if (warp.leave || (stores && at == 0)) return;
    for (int e = 0; e < count; ++e) {
      const std::uint32_t reg = count > 1 ? slot(warp, inst, stores ? written + e : e) : (stores ? inst.c : inst.d);
      if (reg == ir::no_slot) continue;
      Slot& value = warp.lanes<Slot>(reg)[lane];
      T element = stores ? static_cast<T>(value) : T{0};
      void* const host = reinterpret_cast<void*>(at + static_cast<std::uint64_t>(e) * sizeof(T));
      if constexpr (stores) {
        std::memcpy(host, &element, sizeof element);
      } else {
        if (at != 0) std::memcpy(&element, host, sizeof element);
        value = element;
      }
    }
  });
}

template <class Pick>
ir::Handler with_dimensions(const ir::Form& form, const Pick& pick) {
  if (form.has("1d")) return pick.template operator()<1>();
  if (form.has("2d")) return pick.template operator()<2>();
  return form.has("3d") ? pick.template operator()<3>() : nullptr;
}

template <int dimensions, class T, int count, bool stores>
ir::Handler with_outside(const ir::Form& form) {
  if (form.has("clamp")) return &access_surface<dimensions, Outside::clamp, T, count, stores>;
  if (form.has("zero")) return &access_surface<dimensions, Outside::zero, T, count, stores>;
  return &access_surface<dimensions, Outside::trap, T, count, stores>;
}
template <int dimensions, class T, bool stores>
ir::Handler with_count(const ir::Form& form) {
  if (form.vector == 1) return with_outside<dimensions, T, 1, stores>(form);
  if (form.vector == 2) return with_outside<dimensions, T, 2, stores>(form);
  return with_outside<dimensions, T, 4, stores>(form);
}
template <bool stores>
ir::Handler surface_handler(const ir::Form& form) {
  return with_dimensions(form, [&]<int dimensions>() -> ir::Handler {
    switch (ir::bits_of(form.last_type())) {
      case 8:
        return with_count<dimensions, std::uint8_t, stores>(form);
      case 16:
        return with_count<dimensions, std::uint16_t, stores>(form);
      case 32:
        return with_count<dimensions, std::uint32_t, stores>(form);
      default:
        return with_count<dimensions, std::uint64_t, stores>(form);
    }
  });
}

}  // namespace

ir::Handler texture_handler(const ir::Form& form) {
  if (form.opcode == "suld") return surface_handler<false>(form);
  if (form.opcode == "sust") return surface_handler<true>(form);
  if (form.opcode != "tex") return nullptr;
  const bool by_floats = form.last_type() == ir::Type::f32;
  return with_dimensions(form, [&]<int dimensions>() -> ir::Handler {
    return by_floats ? &fetch_texels<dimensions, float> : &fetch_texels<dimensions, std::int32_t>;
  });
}

}  // namespace flashmoe::vgpu::exec
