// One instruction form: the opcode and its modifiers, taken apart once at load time so that whoever chooses an op's
// function need not look at text again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashmoe::vgpu::ir {

enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f32x2,
  f64,
  u16x2,
  s16x2,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  e2m1x2,
  ue8m0x2,
};
[[nodiscard]] Type type_of(std::string_view name);  // none: not a type
[[nodiscard]] int bits_of(Type type);               // e4m3x2: 16, f16x2: 32, pred: 1
[[nodiscard]] std::string_view name_of(Type type);
[[nodiscard]] constexpr bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64 || type == Type::s16x2;
}

enum class Space : std::uint8_t { generic, global, shared, local, param, constant };
[[nodiscard]] std::string_view name_of(Space space);

enum class Rounding : std::uint8_t { none, rn, rna, rz, rm, rp, rni, rzi, rmi, rpi };

struct Form {
  std::string opcode{};                  // "fma"
  std::vector<std::string> modifiers{};  // {"rn", "ftz", "f32"}, as written
  std::vector<Type> types{};             // in the order written: cvt.rn.f16.f32 -> {f16, f32}
  Space space = Space::generic;
  Rounding rounding = Rounding::none;
  int vector = 1;  // .v2, .v4, .x4 does not count
  // What the operands are, where the op's function depends on it (mov packs and unpacks, ld widens).
  int destination_count = 1;   // elements of the destination {a, b, c, d}
  int source_count = 1;        // elements of the first source
  int destination_bits = 0;    // width of the destination register: 1 (pred), 16, 32, 64; 8 never
  int source_bits = 0;         // width of the first (for st: the stored) source register
  bool reads_special = false;  // mov from a special register

  [[nodiscard]] bool has(std::string_view modifier) const;
  // types[i], or Type::none
  [[nodiscard]] Type type(std::size_t i = 0) const { return i < types.size() ? types[i] : Type::none; }
  [[nodiscard]] Type last_type() const { return types.empty() ? Type::none : types.back(); }
  [[nodiscard]] std::string text() const;  // "fma.rn.ftz.f32"
};

}  // namespace flashmoe::vgpu::ir
