// Who counts on a card: CUPTI in the worker, else ncu around it, else nobody, and then the profile is degraded.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/card/card_profile.hpp"
#include "workflow/card/ncu.hpp"

namespace flashmoe::workflow {

// Each makes the call once more; empty: it cannot be asked.
struct Counting {
  std::function<Result<std::vector<std::map<std::string, double>>>()> by_cupti{};  // by launch, in their order
  std::function<Result<NcuReport>()> by_ncu{};
};

// `call`: with everything that is known without counting.
[[nodiscard]] ProfileRun profile_on_card(CardCall call, const Counting& counting);

}  // namespace flashmoe::workflow
