// Whether the parts of a project make sense together, for every workload it declares.
#pragma once

#include "support/result.hpp"
#include "workflow/project/locations.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// Names, references and expressions; needs no file but cudadent.toml.
[[nodiscard]] Result<Done> check_project(const Project& project, const Locations& locations);

// Every file the project names is there.
[[nodiscard]] Result<Done> check_files(const Project& project, const Locations& locations);

}  // namespace flashmoe::workflow
