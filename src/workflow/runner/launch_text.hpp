// Launches on their way from the controller to the worker, both directions side by side:
//   [{"image":0,"kernel":"_Z...","grid":[1,1,1],"block":[32,1,1],"shared_bytes":0,
//     "args":[{"tensor":0},{"i64":5},{"f32":0.125}]}]
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

[[nodiscard]] std::string launches_text(const std::vector<Launch>& launches);
[[nodiscard]] Result<std::vector<Launch>> launches_from(const std::string& text);

}  // namespace flashmoe::workflow
