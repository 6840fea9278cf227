// The ladder as a picture: where the speed lies among the rungs, with its confidence interval.
#pragma once

#include <string>
#include <vector>

#include "workflow/verdict/performance_facts.hpp"

namespace flashmoe::workflow {

// Two lines: a bar from 0 on with a mark at each rung and the interval on it, ┝━●━┥, and the rungs' numbers below.
[[nodiscard]] std::vector<std::string> ladder_lines(const std::vector<double>& ladder, const RatioFacts& ratio);

}  // namespace flashmoe::workflow
