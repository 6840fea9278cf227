// Operand values: the corners of each type, and random bits between them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace flashmoe::vgpu::micro {

using Random = std::mt19937_64;

[[nodiscard]] bool is_float(const std::string& type);  // also f16x2 and its like
[[nodiscard]] std::uint64_t any_value(const std::string& type, Random& random);
// Numbers of ordinary size, no NaN, no infinity, no subnormal number.
[[nodiscard]] std::uint64_t tame_value(const std::string& type, Random& random);

}  // namespace flashmoe::vgpu::micro
