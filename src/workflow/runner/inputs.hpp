// Inputs from a seed: the same seed gives the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "workflow/project/project.hpp"
#include "workflow/runner/layout.hpp"

namespace flashmoe::workflow {

[[nodiscard]] std::uint64_t mix_seed(std::uint64_t seed, std::uint64_t salt);
[[nodiscard]] std::uint64_t fresh_seed();  // from the operating system: no kernel can have been built for it

// A single NaN anywhere: who reads a part of its input, and looks there whether it is ordinary, does not see it.
constexpr const char* lone_nan = "lone_nan";
// What can be injected: denormal, inf, huge (times 10,000), large (times 100), nan, lone_nan, zero. Empty: none.
[[nodiscard]] bool is_hard_value(const std::string& name);

// Fills the whole extent of one input. Floating-point `normal` is a sum of four uniforms with mean 0 and variance 1
// (within +-3.5): cheap enough to renew all inputs between timed blocks. `hard` puts such values among them.
void fill_input(std::span<std::byte> bytes, const TensorSpec& spec, std::uint64_t seed, const std::string& hard = {});

// Not cryptographic: it tells whether bytes changed.
[[nodiscard]] std::uint64_t quick_hash(std::span<const std::byte> bytes);

}  // namespace flashmoe::workflow
