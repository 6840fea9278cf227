// Making a new kernel project from one of the examples, which are compiled into the program.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct Template {
  std::string_view name;                                             // "vector_add"
  std::vector<std::pair<std::string_view, std::string_view>> files;  // name, content
};

// The examples of this source tree; the first one is the default.
[[nodiscard]] const std::vector<Template>& project_templates();

// Writes the template's files into `directory` (made if needed) under the given project name, and returns their names.
// Nothing is written when one of them exists already.
[[nodiscard]] Result<std::vector<std::string>> make_project(const std::string& directory, const std::string& name,
                                                            const std::string& template_name);

}  // namespace flashmoe::workflow
