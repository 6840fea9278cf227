// What run writes must not share memory with what it still reads. Ranges decide nearly every call in a few nanoseconds;
// only where two of them meet are the elements themselves compared.
#pragma once

#include <cstddef>

#include "flashmoe/flashmoe.h"
#include "plan/merge_args.hpp"

namespace flashmoe::api {

// Of a checked plan and checked arguments. o may be q exactly: a tile's queries are read before its rows are written.
// On the CPU only rows, keys and pages that the index arrays lead to count; on a GPU, where they cannot be read, all.
[[nodiscard]] fms_status check_aliases(const fms_attention_plan& plan, const fms_attention_args& args,
                                       const void* workspace, fms_error* error);

// o may be o_a or o_b exactly, lse lse_a or lse_b.
[[nodiscard]] fms_status check_merge_aliases(const fms_merge_problem& problem, const plan::MergeArgs& args,
                                             fms_error* error);

}  // namespace flashmoe::api
