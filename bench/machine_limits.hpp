// What this machine can do at best, per second, with a given number of threads running at once.
// Measured, never looked up: clock rates and the tile unit's speed depend on the host and on the moment, so a limit
// counts only beside a time that was taken next to it.
#pragma once

#include <cstddef>

extern "C" {

enum flashmoe_limit_status {
  FLASHMOE_LIMIT_OK = 0,
  FLASHMOE_LIMIT_NO_SUCH_UNIT = 1,  // this processor, or this kernel of the operating system, lacks it
  FLASHMOE_LIMIT_UNKNOWN_NAME = 2,
  FLASHMOE_LIMIT_BAD_ARGUMENT = 3
};

// name                 unit     what
// amx_bf16             flop     AMX bf16 tile products, operand tiles loaded from the L1 cache
// fma_fp32             flop     fused multiply-adds on full vectors, operands in registers
// exp2_degree3, 4, 6   value    2^x in fp32 by a polynomial of that degree, arguments from the L1 cache
// read                 byte     sequential loads over working_set_bytes, divided among the threads
//
// per_second receives the sum over threads of each one's best stretch within about `seconds`, after a warm-up.
__attribute__((visibility("default"))) int flashmoe_measure_limit(const char* name, int threads, double seconds,
                                                                  size_t working_set_bytes, double* per_second);
}
