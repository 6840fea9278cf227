// From a file that passed check_keys to a Project, defaults filled in. Texts with a form of their own ("f32[n]",
// "kernel.cpp:entry") are taken apart here; whether the parts make sense together is for check_project.
#pragma once

#include <toml++/toml.h>

#include "support/result.hpp"
#include "workflow/project/locations.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

[[nodiscard]] Result<Project> read_project(const toml::table& root, const Locations& locations);

}  // namespace flashmoe::workflow
