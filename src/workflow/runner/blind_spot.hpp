// The judge is judged first: a tolerance that takes a wrong answer for a right one proves nothing about a kernel.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "workflow/project/project.hpp"
#include "workflow/runner/layout.hpp"

namespace flashmoe::workflow {

struct BlindSpot {
  std::string accepts;  // "zeros"
  Tolerance accepted;   // in numbers
  Tolerance needed;     // in numbers; what the type's rounding asks for
};

// Zeros, the mean everywhere, the result of other inputs (where given), every hundredth element zeroed, all elements
// shifted by one: what of these the tolerance accepts although it differs from the expectation by more than rounding.
[[nodiscard]] std::optional<BlindSpot> find_blind_spot(const TensorLayout& layout, std::span<const std::byte> expected,
                                                       std::span<const std::byte> of_other_inputs,
                                                       const Tolerance& tolerance);

}  // namespace flashmoe::workflow
