// Textures and surfaces as the driver made them of descriptors, and what a fetch gives (CUDA C++ Programming Guide,
// "Texture Fetching"; PTX ISA 9.7.10 and 9.7.11). Their memory is read as it is when the instruction runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>

namespace flashmoe::vgpu::memory {
class DeviceMemory;
}

namespace flashmoe::vgpu::exec {

enum class TexelFormat : std::uint8_t { u8, u16, u32, s8, s16, s32, f16, f32 };
enum class TextureEdge : std::uint8_t { wrap, clamp, mirror, border };  // CUaddress_mode, in its order

struct Texture {
  std::uint64_t address = 0;
  std::array<std::uint64_t, 3> extent{1, 1, 1};  // texels
  int dimensions = 1;
  std::uint64_t row_bytes = 0, slice_bytes = 0;  // from a row to the next, from a slice to the next
  TexelFormat format = TexelFormat::f32;
  std::uint32_t channels = 1;
  std::array<TextureEdge, 3> edges{};
  bool is_filtered = false;      // between texels, linearly
  bool is_normalised = false;    // coordinates are in [0, 1)
  bool reads_floats = false;     // integers of 8 and 16 bits become [0, 1] or [-1, 1]
  bool is_plain_memory = false;  // no array: an index outside of it gives 0
  std::array<float, 4> border{};
  [[nodiscard]] std::uint32_t texel_bytes() const;
};

// By handle. A surface is one of them, of which only memory and extents are used.
using Textures = std::map<std::uint64_t, Texture>;
// All of the process, which has one driver; it changes them between launches.
[[nodiscard]] Textures& texture_objects();

using Texel = std::array<std::uint32_t, 4>;  // each a float or an integer, as the texture gives them

// False: its memory is gone.
[[nodiscard]] bool fetch(const Texture& texture, const memory::DeviceMemory& memory, const std::array<float, 3>& at,
                         Texel& out);
[[nodiscard]] bool fetch(const Texture& texture, const memory::DeviceMemory& memory,
                         const std::array<std::int64_t, 3>& at, Texel& out);

}  // namespace flashmoe::vgpu::exec
