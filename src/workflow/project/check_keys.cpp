#include "workflow/project/check_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "workflow/project/keys.hpp"
#include "workflow/project/suggest.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

using T = KeyType;

Position position_of(const toml::source_region& source) {
  return {static_cast<int>(source.begin.line), static_cast<int>(source.begin.column)};
}

// The value as a person would recognise it in the file.
std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    const std::string& value = text->get();
    return value.size() <= 60 ? fmt::format("\"{}\"", value) : fmt::format("\"{}...\"", value.substr(0, 57));
  }
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{:g}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

bool is_number(const toml::node& node) {
  return node.is_number();
}
bool is_scalar(const toml::node& node) {
  return node.is_number() || node.is_boolean();
}
bool is_text(const toml::node& node) {
  return node.is_string();
}
bool is_expression(const toml::node& node) {
  return node.is_string() || node.is_integer();
}

bool all_of(const toml::node& node, bool (*holds)(const toml::node&)) {
  const toml::array* array = node.as_array();
  return array && std::all_of(array->begin(), array->end(), holds);
}

bool has_type(const toml::node& node, KeyType type) {
  switch (type) {
    case T::group:
    case T::named:
      return node.is_table();
    case T::group_list:
      return all_of(node, [](const toml::node& n) { return n.is_table(); });
    case T::text:
    case T::callable:
    case T::tensor:
      return is_text(node);
    case T::text_list:
      return all_of(node, is_text);
    case T::boolean:
      return node.is_boolean();
    case T::integer:
      return node.is_integer();
    case T::number:
      return is_number(node);
    case T::number_list:
      return all_of(node, is_number);
    case T::scalar:
      return is_scalar(node);
    case T::scalar_list:
      return all_of(node, is_scalar);
    case T::expression:
      return is_expression(node);
    case T::expressions:
      return is_expression(node) || all_of(node, is_expression);
  }
  return false;
}

std::vector<std::string> names_of(const KeyNode& node) {
  std::vector<std::string> names;
  for (const KeyNode& child : node.children) names.push_back(child.name);
  return names;
}

bool is_name(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

class Checker {
 public:
  Checker(Locations& locations, std::vector<Diagnostic>& wrong) : locations_(locations), wrong_(wrong) {}

  void table(const toml::table& table, const KeyNode& node, const std::string& path) {
    for (const auto& [name, position, value] : in_written_order(table)) {
      const std::string inner = fmt::format("{}{}{}", path, path.empty() ? "" : ".", name);
      const KeyNode* child = node.any_name() ? node.any_name() : node.child(name);
      if (!child) {
        unknown(position, node, inner, name);
      } else if (node.any_name() && !is_name(name)) {
        tell(locations_.error_at(position, inner, fmt::format("'{}' cannot be used as a name", name),
                                 "use letters, digits and '_', not beginning with a digit"));
      } else {
        check(*value, *child, inner);
      }
    }
    missing(table, node, path);
  }

 private:
  void tell(Diagnostic problem) {
    problem.code = codes::project_key;
    wrong_.push_back(std::move(problem));
  }

  void unknown(Position position, const KeyNode& node, const std::string& path, const std::string& name) {
    const std::vector<std::string> known = names_of(node);
    tell(locations_.error_at(position, path, fmt::format("unknown key '{}'; allowed here: {}", name, list_of(known)),
                             suggestion(name, known, "or remove it; all keys: cudadent schema --markdown")));
  }

  // What to write instead, where there is a usual value.
  static std::string usual(const KeyNode& node) {
    const std::string_view text = node.spec->default_text;
    return text.empty() ? "" : fmt::format("write {} = {}", node.name, text);
  }

  void missing(const toml::table& table, const KeyNode& node, const std::string& path) {
    for (const KeyNode& child : node.children) {
      const bool named_or_element = child.name == "*" || child.name == "[]";
      if (named_or_element || !child.spec->required || table.contains(child.name)) continue;
      const std::string inner = path.empty() ? child.name : path + "." + child.name;
      tell(locations_.error(inner, fmt::format("is missing; {}", child.spec->description),
                            fmt::format("add {}, {}", inner, expected_by(child))));
    }
    if (node.any_name() && node.spec->required && node.name != "*" && table.empty()) {
      tell(locations_.error(path, fmt::format("is empty; {}", node.spec->description), "name at least one"));
    }
  }

  void check(const toml::node& value, const KeyNode& node, const std::string& path) {
    locations_.add(path, position_of(value.source()));
    const KeySpec& spec = *node.spec;
    const bool long_form = !node.children.empty() && value.is_table();
    if (!long_form && !has_type(value, spec.type)) {
      tell(locations_.error(path, fmt::format("is {}; allowed is {}", shown(value), expected_by(node)), usual(node)));
    } else if (long_form) {
      table(*value.as_table(), node, path);
    } else if (const toml::array* array = value.as_array()) {
      elements(*array, node, path);
    } else {
      limits(value, node, path);
    }
  }

  void elements(const toml::array& array, const KeyNode& node, const std::string& path) {
    if (node.spec->required && array.empty()) {
      tell(locations_.error(path, fmt::format("is empty; {}", node.spec->description), "add at least one"));
    }
    std::size_t index = 0;
    for (const toml::node& element : array) {
      const std::string inner = fmt::format("{}[{}]", path, index++);
      locations_.add(inner, position_of(element.source()));
      if (node.element()) {
        table(*element.as_table(), *node.element(), inner);
      } else {
        limits(element, node, inner);
      }
    }
  }

  void limits(const toml::node& value, const KeyNode& node, const std::string& path) {
    const KeySpec& spec = *node.spec;
    if (const auto number = value.value<double>(); number && is_number(value)) {
      const bool outside = std::isnan(*number) || *number < spec.min || *number > spec.max || std::isinf(*number);
      if (outside)
        tell(locations_.error(path, fmt::format("is {}; allowed is {}", shown(value), expected_by(node)), usual(node)));
    }
    if (const auto* text = value.as_string(); text && !spec.allowed.empty()) {
      const std::vector<std::string> allowed(spec.allowed.begin(), spec.allowed.end());
      if (std::find(allowed.begin(), allowed.end(), text->get()) == allowed.end()) {
        tell(locations_.error(path, fmt::format("is {}; allowed are {}", shown(value), list_of(allowed)),
                              suggestion(text->get(), allowed, "")));
      }
    }
  }

  Locations& locations_;
  std::vector<Diagnostic>& wrong_;
};

}  // namespace

std::vector<Entry> in_written_order(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, value] : table) {
    entries.push_back({std::string(key.str()), position_of(key.source()), &value});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.position.line, a.position.column) < std::pair(b.position.line, b.position.column);
  });
  return entries;
}

std::vector<Diagnostic> check_keys(const toml::table& root, Locations& locations) {
  std::vector<Diagnostic> wrong;
  Checker(locations, wrong).table(root, key_tree(), "");
  return wrong;
}

}  // namespace flashmoe::workflow
