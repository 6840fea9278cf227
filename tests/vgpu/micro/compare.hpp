// Results of the virtual GPU against the oracle's, field by field.
#pragma once

#include <string>
#include <vector>

#include "vgpu/micro/micro_kernel.hpp"

namespace flashmoe::vgpu::micro {

struct Comparison {
  const MicroKernel& kernel;
  const std::vector<std::uint8_t>& got;
  const std::vector<std::uint8_t>& expected;
  std::vector<std::uint8_t> magnitudes{};  // Tolerance::Kind::sum: sums of magnitudes, laid out as the results
};

// Empty, or the first difference with the thread's inputs.
[[nodiscard]] std::string compare(const Comparison& comparison);

// How far the result of this form may be from the nearest number to the true one (the PTX ISA's sections on each
// function); Kind::number for what is exact.
[[nodiscard]] Tolerance tolerance_of(const std::string& form);

}  // namespace flashmoe::vgpu::micro
