#include "vgpu/ir/form.hpp"

#include <algorithm>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::ir {
namespace {

struct TypeFact {
  std::string_view name;
  int bits;
};

// In the order of Type.
constexpr std::array<TypeFact, 31> kTypes{{
    {"none", 0},    {"pred", 1},   {"b8", 8},       {"b16", 16},   {"b32", 32},    {"b64", 64},  {"b128", 128},
    {"u8", 8},      {"u16", 16},   {"u32", 32},     {"u64", 64},   {"s8", 8},      {"s16", 16},  {"s32", 32},
    {"s64", 64},    {"f16", 16},   {"f16x2", 32},   {"bf16", 16},  {"bf16x2", 32}, {"tf32", 32}, {"f32", 32},
    {"f32x2", 64},  {"f64", 64},   {"u16x2", 32},   {"s16x2", 32}, {"e4m3", 8},    {"e5m2", 8},  {"e4m3x2", 16},
    {"e5m2x2", 16}, {"e2m1x2", 8}, {"ue8m0x2", 16},
}};
static_assert(kTypes.size() == static_cast<std::size_t>(Type::ue8m0x2) + 1);

constexpr std::array<std::string_view, 6> kSpaces{"generic", "global", "shared", "local", "param", "const"};
constexpr std::array<std::string_view, 11> kPipes{"alu",    "fma",     "fp64",    "half",    "xu",        "lsu",
                                                  "tensor", "uniform", "control", "barrier", "async_copy"};

}  // namespace

Type type_of(std::string_view name) {
  for (std::size_t i = 1; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return static_cast<Type>(i);
  return Type::none;
}

int bits_of(Type type) {
  return kTypes[static_cast<std::size_t>(type)].bits;
}

std::string_view name_of(Type type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::string_view name_of(Space space) {
  return kSpaces[static_cast<std::size_t>(space)];
}

std::string_view name_of(Pipe pipe) {
  return kPipes[static_cast<std::size_t>(pipe)];
}

bool Form::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::string Form::text() const {
  std::string text;
  ptx::append_form(text, opcode, modifiers);
  return text;
}

}  // namespace flashmoe::vgpu::ir
