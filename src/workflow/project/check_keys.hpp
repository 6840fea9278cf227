// Holds a parsed file against the table of keys: every key known, every value of its type and in its range, nothing
// required missing.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/locations.hpp"

namespace flashmoe::workflow {

// Everything that is wrong, in the order of the file. Also fills `locations` with the place of every value.
[[nodiscard]] std::vector<Diagnostic> check_keys(const toml::table& root, Locations& locations);

struct Entry {
  std::string name;
  Position position;  // of the name
  const toml::node* value;
};

// The entries of a table in the order they were written (toml++ keeps them sorted by name).
[[nodiscard]] std::vector<Entry> in_written_order(const toml::table& table);

}  // namespace flashmoe::workflow
