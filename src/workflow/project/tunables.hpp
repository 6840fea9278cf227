// [tunables] and [[tunable_rules]] of a file that passed check_keys: read, and checked as far as they go alone
// (domains, defaults, and that the defaults are a legal point).
#pragma once

#include <toml++/toml.h>

#include "support/result.hpp"
#include "workflow/project/locations.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// Fills tunables and rules, and sets the point to the defaults.
[[nodiscard]] Result<Done> read_tunables(const toml::table& root, const Locations& locations, Project& project);

// The value as the tunable's kind has it (an integer; true or false as 1 or 0) and as one of its choices, or what is
// wrong with it, in words: "is 3; the choices of 'stages' are 1, 2".
[[nodiscard]] Result<double> tunable_value(const Tunable& tunable, const toml::node& node);

}  // namespace flashmoe::workflow
