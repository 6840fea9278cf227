// Rounding to the storage formats, for making inputs and for the size of one rounding error.
#pragma once

#include <cstdint>

#include "flashmoe/flashmoe.h"

namespace flashmoe::testing {

size_t element_bytes(fms_dtype dtype);
const char* dtype_name(fms_dtype dtype);

// The largest relative error of one rounding to nearest: 2^-11 for fp16, 2^-8 for bf16, 2^-24 for fp32.
double unit_roundoff(fms_dtype dtype);
// The distance between the neighbours of `value` in this format; the smallest subnormal near zero.
double spacing_at(fms_dtype dtype, double value);
// Nearest representable, ties to even, beyond the largest finite: infinity.
double round_to(fms_dtype dtype, double value);

void store(void* array, fms_dtype dtype, int64_t index, double value);  // rounds
double load(const void* array, fms_dtype dtype, int64_t index);

}  // namespace flashmoe::testing
