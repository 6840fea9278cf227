// "did you mean": the nearest of the names that are allowed.
#pragma once

#include <string>
#include <vector>

namespace flashmoe::workflow {

// The name nearest to `name` by edit distance, or empty when none is near enough to be meant.
[[nodiscard]] std::string nearest(const std::string& name, const std::vector<std::string>& known);

// "did you mean 'x'?", with `otherwise` after it or alone.
[[nodiscard]] std::string suggestion(const std::string& name, const std::vector<std::string>& known,
                                     const std::string& otherwise);

// "a, b, c", or "none".
[[nodiscard]] std::string list_of(const std::vector<std::string>& names);

}  // namespace flashmoe::workflow
