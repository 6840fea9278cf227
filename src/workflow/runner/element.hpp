// Elements of every dtype as doubles and back. Written here and not taken from the kernels: a shared rounding bug would
// cancel out between the kernel and its judge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cudadent/kernel.h"

namespace flashmoe::workflow {

[[nodiscard]] std::size_t bytes_per_element(cudadent_dtype dtype);
[[nodiscard]] const char* name_of(cudadent_dtype dtype);
[[nodiscard]] bool is_floating(cudadent_dtype dtype);
[[nodiscard]] double smallest_denormal(cudadent_dtype dtype);  // of a floating type

[[nodiscard]] double load_element(const std::byte* at, cudadent_dtype dtype);
// Rounds to nearest even; integers saturate.
void store_element(std::byte* at, cudadent_dtype dtype, double value);
void store_elements(std::byte* at, cudadent_dtype dtype, std::span<const double> values);  // one behind the other

// The bytes an output is filled with before a call: a NaN that no computation produces, so that an element nobody wrote
// shows, also where a NaN is expected. Integers have no NaN: they get `salt`, which changes from block to block.
void poison(std::span<std::byte> bytes, cudadent_dtype dtype, std::uint64_t salt);
[[nodiscard]] bool is_poison(const std::byte* at, cudadent_dtype dtype);
[[nodiscard]] bool any_poison(std::span<const std::byte> bytes, cudadent_dtype dtype);

}  // namespace flashmoe::workflow
