// Bytes -> a problem description, plan options and index arrays. Most of it makes sense, so that the fuzzer gets past
// the checks; a few fields are then overwritten with anything at all, so that it also gets to the checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flashmoe/flashmoe.h"
#include "support/attention_case.hpp"

namespace flashmoe::fuzz {

enum class Values : uint8_t { kNormal, kPeaked, kNonFiniteScores, kNonFiniteV, kMaxValue = kNonFiniteV };

struct FuzzedProblem {
  fms_attention_problem problem{};
  fms_plan_options options{};
  testing::IndexArrays indices;      // valid for the problem, if the problem is valid
  testing::IndexArrays bad_indices;  // the same with a few entries overwritten
  uint8_t isa = 0;                   // which of the machine's
  Values values = Values::kNormal;
  uint64_t seed = 0;
};

FuzzedProblem fuzzed_problem(const uint8_t* data, size_t size);

// What flashmoe.h asks of the index arrays of a valid problem.
bool indices_are_valid(const fms_attention_problem& problem, const testing::IndexArrays& indices);

// Small enough to allocate and to hand to the oracle, a few hundred times a second.
bool is_small(const fms_attention_problem& problem);

}  // namespace flashmoe::fuzz
