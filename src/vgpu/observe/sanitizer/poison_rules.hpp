// How undefined bits pass from an instruction's sources to its results: one function per rule of ir::PoisonRule that
// moves registers to registers. Called only when a source is undefined somewhere, before the instruction runs.
#pragma once

#include <cstdint>

#include "vgpu/exec/state.hpp"
#include "vgpu/observe/sanitizer/register_poison.hpp"

namespace flashmoe::vgpu::observe {

struct PoisonStep {
  const exec::Warp& warp;
  const ir::Inst& inst;
  const ir::InstInfo& info;
  RegisterPoison& poison;
  std::uint32_t lanes = 0;   // that run it
  std::uint32_t dirty = 0;   // those with an undefined bit in a source
  std::uint32_t origin = 0;  // handed on to the results
  std::uint32_t absent = 0;  // of a shuffle: lanes_without_source()
};

// The lanes of a shuffle whose value comes from one that does not execute it or is not in their mask (PTX ISA 9.7.9.6:
// what they get is undefined).
[[nodiscard]] std::uint32_t lanes_without_source(const exec::Warp& warp, const ir::Inst& inst, const ir::Form& form);

void poison_any_to_all(const PoisonStep& step);
void poison_move(const PoisonStep& step);
void poison_bitwise(const PoisonStep& step);
void poison_select(const PoisonStep& step);
void poison_vote(const PoisonStep& step);
void poison_matrix_multiply(const PoisonStep& step);

// Undefined bits of each result bit, on values of up to 64 bits; the rules above are made of these.
[[nodiscard]] std::uint64_t poison_and(std::uint64_t a, std::uint64_t pa, std::uint64_t b, std::uint64_t pb);
[[nodiscard]] std::uint64_t poison_or(std::uint64_t a, std::uint64_t pa, std::uint64_t b, std::uint64_t pb);
// A value of `from` bits widened to 64: zeros are defined, copies of an undefined sign are not.
[[nodiscard]] std::uint64_t poison_extended(std::uint64_t poison, int from, bool sign);
// Bytes picked by prmt's default mode (PTX ISA 9.7.9.7).
[[nodiscard]] std::uint32_t poison_permuted(std::uint32_t pa, std::uint32_t pb, std::uint32_t selector);
// Of a pair of that many bits each, converted from numbers of which so much is undefined.
[[nodiscard]] std::uint32_t poison_pair(std::uint64_t lower, std::uint64_t upper, int bits);

}  // namespace flashmoe::vgpu::observe
