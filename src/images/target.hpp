// Which devices run PTX of which target: PTX ISA, ".target"; CUDA Programming Guide, feature sets of compute
// capabilities.
#pragma once

#include <string_view>

namespace flashmoe {

// "sm_80" runs on 8.0 and everything newer, "sm_90a" on 9.0 alone, "sm_100f" on 10.0 and newer ones of its family 10.x.
// What is no architecture ("debug", "texmode_unified") asks for none.
[[nodiscard]] bool target_runs_on(std::string_view target, int sm);

// "sm_90a" of the first .target line; empty: there is none.
[[nodiscard]] std::string_view target_of(std::string_view ptx);

}  // namespace flashmoe
