// Holds a parsed file against the table of keys: every key known, every value of its type and in its range, nothing
// required missing. What passes may be read without further questions.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/locations.hpp"

namespace flashmoe::workflow {

// Also fills `locations` with the place of every value.
[[nodiscard]] Result<Done> check_keys(const toml::table& root, Locations& locations);

struct Entry {
  std::string name;
  Position position;  // of the name
  const toml::node* value;
};

// The entries of a table in the order they were written (toml++ keeps them sorted by name).
[[nodiscard]] std::vector<Entry> in_written_order(const toml::table& table);

}  // namespace flashmoe::workflow
