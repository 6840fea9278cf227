// The one table of what cudadent.toml may hold. The reader's checks, the JSON Schema and the manual's reference all
// come from it, so that none of them can say something else than the others.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace flashmoe::workflow {

enum class KeyType {
  group,        // a table with the keys listed below it
  named,        // a table whose keys are the user's own names
  group_list,   // an array of tables
  text,         // a string
  text_list,    // an array of strings
  boolean,      //
  integer,      //
  number,       // integer or float
  number_list,  //
  scalar,       // number or boolean: a parameter's value
  scalar_list,  //
  expression,   // string or integer: evaluated per workload
  expressions,  // an expression or an array of them
  callable,     // "file:entry"
  tensor        // "f32[n, m]"
};

struct KeySpec {
  std::string_view path;  // dotted; "*" is a name of the user's, "[]" an element of an array of tables
  KeyType type = KeyType::text;
  bool required = false;
  std::string_view description{};
  std::string_view default_text{};          // as TOML writes it; empty: none
  std::vector<std::string_view> allowed{};  // the only texts that are allowed
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// The table as a tree. A group may also have a short form: `spec->type` is then not a group type, and `children` are
// the keys of its long form.
struct KeyNode {
  std::string name;
  const KeySpec* spec = nullptr;
  std::vector<KeyNode> children{};

  [[nodiscard]] const KeyNode* child(std::string_view key) const;
  [[nodiscard]] const KeyNode* any_name() const { return child("*"); }
  [[nodiscard]] const KeyNode* element() const { return child("[]"); }
};

[[nodiscard]] const std::vector<KeySpec>& key_table();
[[nodiscard]] const KeyNode& key_tree();  // the root: the file itself

// What people are told is expected: "a string", "an array of numbers", "\"file:entry\" or a table".
[[nodiscard]] std::string expected_by(const KeyNode& node);

// The reference of the manual: one Markdown table row per key.
[[nodiscard]] std::string keys_markdown();

}  // namespace flashmoe::workflow
