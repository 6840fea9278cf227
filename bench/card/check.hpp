// Every kernel that the library ships, held against the fp64 oracle on the card.
#pragma once

#include "card.hpp"

namespace flashmoe::card {

struct CheckResult {
  int failed = 0;
  bool is_complete = true;
};

// A line for each problem. `quick`: one problem a kernel instead of two.
[[nodiscard]] CheckResult check_kernels(const Card& card, bool quick, Limit limit);

}  // namespace flashmoe::card
