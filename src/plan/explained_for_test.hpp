// Tests only: what the library says of a plan, as a string.
#pragma once

#include <string>

#include "plan/planner.hpp"

namespace flashmoe::plan {

[[nodiscard]] inline std::string explained(const fms_attention_plan& plan) {
  std::string text(explain(plan, nullptr, 0), '\0');
  explain(plan, text.data(), text.size() + 1);
  return text;
}

}  // namespace flashmoe::plan
