// Things by name, in the order in which they came: how people read them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flashmoe::workflow {

template <class T>
using Named = std::vector<std::pair<std::string, T>>;

// nullptr: there is none of that name.
template <class T>
[[nodiscard]] const T* find_named(const Named<T>& all, std::string_view name) {
  for (const auto& [key, value] : all) {
    if (key == name) return &value;
  }
  return nullptr;
}

// Replaces the one of that name, or adds it at the end.
template <class T>
T& put_named(Named<T>& all, std::string_view name, T value) {
  for (auto& [key, old] : all) {
    if (key == name) return old = std::move(value);
  }
  return all.emplace_back(std::string(name), std::move(value)).second;
}

}  // namespace flashmoe::workflow
