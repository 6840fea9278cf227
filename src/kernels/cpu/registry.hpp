// The CPU kernels, one table per ISA level. Each table is defined in the translation unit that is compiled for that
// ISA, and refuses to compile with other flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flashmoe/flashmoe.h"
#include "plan/merge_args.hpp"

namespace flashmoe::cpu {

// Runs a checked plan on checked arguments; fills args.info.
using AttentionFn = void (*)(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace);

using MergeFn = void (*)(const fms_merge_problem& problem, const plan::MergeArgs& args);

// out[i] = 2^x[i] by the polynomial of that degree (3, 4 or 6), for tests.
using Exp2Fn = void (*)(int degree, const float* x, float* out, std::size_t n);

// A null entry means that the planner takes that kernel from the level below.
struct KernelTable {
  AttentionFn tile;
  AttentionFn gemv;
  AttentionFn amx;
  MergeFn merge;
  Exp2Fn exp2;
};

extern const KernelTable scalar_kernels;
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;
extern const KernelTable amx_kernels;

// The table of one level; never AUTO.
const KernelTable& kernels(fms_cpu_isa isa);

}  // namespace flashmoe::cpu
