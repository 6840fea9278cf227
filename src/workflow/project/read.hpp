// From a file that check_keys has seen to a Project, defaults filled in. Texts with a form of their own ("f32[n]",
// "kernel.cpp:entry") are taken apart here; whether the parts make sense together is for check_project.
#pragma once

#include <toml++/toml.h>

#include "workflow/project/locations.hpp"
#include "workflow/project/mistakes.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// What cannot be read is told, and left as it is by default: the rest is read all the same.
[[nodiscard]] Project read_project(const toml::table& root, const Locations& locations, Mistakes& mistakes);

}  // namespace flashmoe::workflow
