#include "vgpu/exec/texture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "vgpu/memory/device_memory.hpp"

namespace flashmoe::vgpu::exec {
namespace {

std::uint32_t channel_bytes(TexelFormat format) {
  switch (format) {
    case TexelFormat::u8:
    case TexelFormat::s8:
      return 1;
    case TexelFormat::u16:
    case TexelFormat::s16:
    case TexelFormat::f16:
      return 2;
    default:
      return 4;
  }
}

float half_to_float(std::uint32_t bits) {
  const std::uint32_t magnitude = (bits & 0x7fffU) << 13U;
  float value = std::bit_cast<float>(magnitude) * 0x1p112F;  // exponents differ by 112; exact for subnormal ones too
  if ((bits & 0x7c00U) == 0x7c00U) value = std::bit_cast<float>(magnitude | 0x7f800000U);
  return (bits & 0x8000U) != 0 ? -value : value;
}

// One channel as it is given: a float, or an integer of 32 bits.
std::uint32_t channel(const Texture& texture, std::uint64_t host) {
  const auto read = [host](auto value) {
    std::memcpy(&value, reinterpret_cast<const void*>(host), sizeof value);
    return value;
  };
  const auto as_float = [&](double value, double largest) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::max(value / largest, -1.0)));
  };
  const bool floats = texture.reads_floats;
  switch (texture.format) {
    case TexelFormat::u8:
      return floats ? as_float(read(std::uint8_t{}), 255) : read(std::uint8_t{});
    case TexelFormat::u16:
      return floats ? as_float(read(std::uint16_t{}), 65535) : read(std::uint16_t{});
    case TexelFormat::s8:
      return floats ? as_float(read(std::int8_t{}), 127) : static_cast<std::uint32_t>(read(std::int8_t{}));
    case TexelFormat::s16:
      return floats ? as_float(read(std::int16_t{}), 32767) : static_cast<std::uint32_t>(read(std::int16_t{}));
    case TexelFormat::f16:
      return std::bit_cast<std::uint32_t>(half_to_float(read(std::uint16_t{})));
    default:
      return read(std::uint32_t{});
  }
}

// The texel that an index means; -1: the border.
std::int64_t placed(std::int64_t index, std::int64_t count, TextureEdge edge) {
  if (index >= 0 && index < count) return index;
  switch (edge) {
    case TextureEdge::wrap:
      return ((index % count) + count) % count;
    case TextureEdge::mirror: {
      const std::int64_t folded = ((index % (2 * count)) + 2 * count) % (2 * count);
      return folded < count ? folded : 2 * count - 1 - folded;
    }
    case TextureEdge::border:
      return -1;
    case TextureEdge::clamp:
      break;
  }
  return std::clamp<std::int64_t>(index, 0, count - 1);
}

// Wrapping and mirroring are for normalised coordinates; others are clamped (Programming Guide).
TextureEdge edge_of(const Texture& texture, int dimension) {
  const TextureEdge edge = texture.edges[static_cast<std::size_t>(dimension)];
  if (texture.is_normalised || edge == TextureEdge::border) return edge;
  return TextureEdge::clamp;
}

// Any number a float may be: what is no index lies far outside.
std::int64_t floor_index(float value) {
  constexpr float far = 1e9F;
  return static_cast<std::int64_t>(std::floor(std::isnan(value) ? 0.0F : std::clamp(value, -far, far)));
}

}  // namespace

Textures& texture_objects() {
  static auto& all = *new Textures;  // outlives all that is destroyed at exit
  return all;
}

std::uint32_t Texture::texel_bytes() const {
  return channel_bytes(format) * channels;
}

bool fetch(const Texture& texture, const memory::DeviceMemory& memory, const std::array<std::int64_t, 3>& at,
           Texel& out) {
  out = {};
  std::uint64_t address = texture.address;
  const std::array<std::uint64_t, 3> steps{texture.texel_bytes(), texture.row_bytes, texture.slice_bytes};
  for (int i = 0; i < texture.dimensions; ++i) {
    const auto which = static_cast<std::size_t>(i);
    const auto count = static_cast<std::int64_t>(texture.extent[which]);
    if (texture.is_plain_memory && (at[which] < 0 || at[which] >= count)) return true;
    const std::int64_t index = placed(at[which], count, edge_of(texture, i));
    if (index < 0) {
      for (std::size_t c = 0; c < 4; ++c) out[c] = std::bit_cast<std::uint32_t>(texture.border[c]);
      return true;
    }
    address += static_cast<std::uint64_t>(index) * steps[which];
  }
  if (!memory.is_mapped(address, texture.texel_bytes())) return false;
  for (std::uint32_t c = 0; c < texture.channels; ++c)
    out[c] = channel(texture, address + c * channel_bytes(texture.format));
  return true;
}

bool fetch(const Texture& texture, const memory::DeviceMemory& memory, const std::array<float, 3>& at, Texel& out) {
  std::array<std::int64_t, 3> first{};
  std::array<float, 3> weight{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(texture.dimensions); ++i) {
    float x = at[i];
    if (texture.is_normalised) {
      // Before it is scaled, so that coordinates far away keep their fraction.
      if (texture.edges[i] == TextureEdge::wrap) x -= std::floor(x);
      x *= static_cast<float>(texture.extent[i]);
    }
    if (texture.is_filtered) x -= 0.5F;
    first[i] = floor_index(x);
    // 9 bits of fixed point, 8 of them behind the point: 1 is exact.
    weight[i] = std::round((x - std::floor(x)) * 256) / 256;
    if (!std::isfinite(x)) weight[i] = 0;
  }
  if (!texture.is_filtered) return fetch(texture, memory, first, out);
  std::array<float, 4> sum{};
  for (unsigned corner = 0; corner < 1U << texture.dimensions; ++corner) {
    std::array<std::int64_t, 3> index = first;
    float share = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(texture.dimensions); ++i) {
      const bool is_next = (corner >> i & 1U) != 0;
      index[i] += is_next ? 1 : 0;
      share *= is_next ? weight[i] : 1 - weight[i];
    }
    if (share == 0) continue;  // what has no weight is not read: an infinity there would become a NaN
    Texel one;
    if (!fetch(texture, memory, index, one)) return false;
    for (std::size_t c = 0; c < 4; ++c) sum[c] += share * std::bit_cast<float>(one[c]);
  }
  for (std::size_t c = 0; c < 4; ++c) out[c] = std::bit_cast<std::uint32_t>(sum[c]);
  return true;
}

}  // namespace flashmoe::vgpu::exec
