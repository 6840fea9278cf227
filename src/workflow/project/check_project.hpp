// Whether the parts of a project make sense together, for every workload it declares.
#pragma once

#include "workflow/project/locations.hpp"
#include "workflow/project/mistakes.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// Names, references and expressions; needs no file but cudadent.toml.
void check_project(const Project& project, const Locations& locations, Mistakes& mistakes);

// Every file the project names is there.
void check_files(const Project& project, const Locations& locations, Mistakes& mistakes);

}  // namespace flashmoe::workflow
