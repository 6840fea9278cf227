#include "vgpu/ir/pattern.hpp"

#include <algorithm>

#include "vgpu/ir/form.hpp"

namespace flashmoe::vgpu::ir {
namespace {

constexpr bool ends_name(char c) {
  return c == '.' || c == ',' || c == '{' || c == '}' || c == '[' || c == ']' || c == '<' || c == '>';
}

}  // namespace

Pattern::Pattern(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '{' || c == '[' || c == '<') {
      groups_.push_back({c == '{' ? Kind::one : c == '[' ? Kind::optional : Kind::any, {}, false});
      inside = true;
    } else if (c == '}' || c == ']' || c == '>') {
      inside = false;
    }
    if (c != '.') {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && !ends_name(text[end])) ++end;
    if (!inside) groups_.push_back({});
    const std::string_view name = text.substr(i + 1, end - i - 1);
    groups_.back().choices.push_back(name);
    groups_.back().has_types |= type_of(name) != Type::none;
    i = end;
  }
}

bool Pattern::Group::holds(std::string_view modifier) const {
  return std::find(choices.begin(), choices.end(), modifier) != choices.end();
}

bool Pattern::place(const std::vector<std::string>& modifiers, std::size_t next, std::vector<bool>& used,
                    std::size_t first_type_group) const {
  if (next == modifiers.size()) {
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].kind == Kind::one && !used[g]) return false;
    return true;
  }
  const bool is_type = type_of(modifiers[next]) != Type::none;
  for (std::size_t g = is_type ? first_type_group : 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if ((used[g] && group.kind != Kind::any) || !group.holds(modifiers[next])) continue;
    const bool was_used = used[g];
    used[g] = true;
    if (place(modifiers, next + 1, used, is_type ? g + 1 : first_type_group)) return true;
    used[g] = was_used;
  }
  return false;
}

bool Pattern::matches(const std::vector<std::string>& modifiers) const {
  std::vector<bool> used(groups_.size(), false);
  return place(modifiers, 0, used, 0);
}

int Pattern::distance(const std::vector<std::string>& modifiers) const {
  if (matches(modifiers)) return 0;
  int distance = 0;
  std::vector<bool> used(groups_.size(), false);
  for (const std::string& modifier : modifiers) {
    std::size_t g = 0;
    while (g < groups_.size() && (used[g] || !groups_[g].holds(modifier))) ++g;
    if (g == groups_.size()) {
      ++distance;
    } else {
      used[g] = groups_[g].kind != Kind::any;
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (groups_[g].kind == Kind::one && !used[g]) ++distance;
  return std::max(distance, 1);
}

std::vector<std::string> Pattern::expand() const {
  std::vector<std::string> forms{""};
  for (const Group& group : groups_) {
    if (group.kind == Kind::any) continue;
    std::vector<std::string> longer;
    longer.reserve(forms.size() * (group.choices.size() + 1));
    for (const std::string& form : forms) {
      if (group.kind == Kind::optional) longer.push_back(form);
      for (const std::string_view choice : group.choices) longer.push_back(form + "." + std::string(choice));
    }
    forms = std::move(longer);
  }
  return forms;
}

}  // namespace flashmoe::vgpu::ir
