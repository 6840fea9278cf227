// What tries changes, as JSON: advice, iterations.
#pragma once

#include <vector>

#include "workflow/advise/advise.hpp"
#include "workflow/journal/json.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow {

struct Iteration;

[[nodiscard]] Json list_of(const std::vector<Advice>& advice);
[[nodiscard]] Json list_of(const std::vector<Iteration>& iterations);

}  // namespace flashmoe::workflow
