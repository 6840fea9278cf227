// What a person or an agent kept, which no record says: it is in the history.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct Project;

// Of these commits, which trials made, those whose very tree was committed later, with the commit that has it. Unset:
// there is no history to be read.
[[nodiscard]] std::optional<std::map<std::string, std::string>> kept_in_history(
    const Project& project, const std::vector<std::string>& candidates);

}  // namespace flashmoe::workflow
