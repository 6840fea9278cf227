// Storage types of the tensors. They are opaque bits: arithmetic is always fp32, conversions belong to each ISA.
#pragma once

#include <cstdint>

#include "flashmoe/flashmoe.h"

namespace flashmoe::cpu {

struct Half {
  uint16_t bits;
};

struct Bf16 {
  uint16_t bits;
};

// Of keys and values alone: 1 sign, 4 exponent (bias 7), 3 fraction bits; no infinity, and one NaN of either sign.
struct E4m3 {
  uint8_t bits;
};

// Calls visit(T{}) with the storage type of `dtype`. The problem was checked, so there is no fourth case.
template <class Visitor>
inline __attribute__((always_inline)) void visit_dtype(fms_dtype dtype, Visitor&& visit) {
  switch (dtype) {
    case FMS_F16:
      return visit(Half{});
    case FMS_BF16:
      return visit(Bf16{});
    case FMS_F32:
      return visit(float{});
  }
  __builtin_unreachable();
}

}  // namespace flashmoe::cpu
