// One list of fields for both ways: describe(io, value) names every field of a struct once. A Writer puts them into
// JSON in that order; a Reader takes them from JSON that another version wrote or somebody edited: what is missing or
// of another type leaves the value as it is, and nothing throws.
#pragma once

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/json.hpp"
#include "workflow/journal/difference.hpp"
#include "workflow/verdict/named.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow::journal_json {

// describe(Io& io, Of<Cost> auto& cost): the one function for writing (const Cost) and reading (Cost).
template <class T, class U>
concept Of = std::same_as<std::remove_const_t<T>, U>;

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

// ---- writing -----------------------------------------------------------------------------------------------------

template <class T>
void write(Json& to, const T& value);  // structs; the others are for everything else
void write(Json& to, const Scalar& value);
template <Number T>
void write(Json& to, const T& value);
template <class T>
void write(Json& to, const std::optional<T>& value);
template <class T>
void write(Json& to, const std::vector<T>& values);
template <class T, std::size_t Count>
void write(Json& to, const std::array<T, Count>& values);
template <class T>
void write(Json& to, const std::map<std::string, T>& values);
template <class T>
void write(Json& to, const Named<T>& values);

inline void write(Json& to, const std::string& value) {
  to = value;
}
inline void write(Json& to, bool value) {
  to = value;
}
inline void write(Json& to, Outcome value) {
  to = name_of(value);
}
inline void write(Json& to, Severity value) {
  to = name_of(value);
}

class Writer {
 public:
  static constexpr bool writes = true;
  explicit Writer(Json& to) : to_(to) {}

  template <class T>
  void operator()(const char* key, const T& value) {
    write(to_[key], value);
  }
  // Left out when there is nothing: no text, no element, no value.
  template <class T>
  void if_any(const char* key, const T& value) {
    if (any(value)) write(to_[key], value);
  }
  // Left out when nobody asked; null when the answer was nothing.
  template <class T>
  void if_asked(const char* key, const bool& asked, const std::optional<T>& value) {
    if (asked) write(to_[key], value);
  }
  // The fields of a part stand among those around it; `first` is the one that tells whether the part is there.
  template <class T>
  void among(const char* /*first*/, const std::optional<T>& part) {
    if (part) describe(*this, *part);
  }
  [[nodiscard]] Json& json() { return to_; }

 private:
  template <class T>
  static bool any(const T& value) {
    if constexpr (requires { value.empty(); }) {
      return !value.empty();
    } else {
      return static_cast<bool>(value);
    }
  }
  Json& to_;
};

template <class T>
void write(Json& to, const T& value) {
  to = Json::object();
  Writer io(to);
  describe(io, value);
}
template <Number T>
void write(Json& to, const T& value) {
  to = value;
}
template <class T>
void write(Json& to, const std::optional<T>& value) {
  to = nullptr;
  if (value) write(to, *value);
}
template <class Range>
void write_list(Json& to, const Range& values) {
  to = Json::array();
  for (const auto& value : values) write(to.emplace_back(), value);
}
template <class T>
void write(Json& to, const std::vector<T>& values) {
  write_list(to, values);
}
template <class T, std::size_t Count>
void write(Json& to, const std::array<T, Count>& values) {
  write_list(to, values);
}
template <class Range>
void write_named(Json& to, const Range& values) {
  to = Json::object();
  for (const auto& [key, value] : values) write(to[key], value);
}
template <class T>
void write(Json& to, const std::map<std::string, T>& values) {
  write_named(to, values);
}
template <class T>
void write(Json& to, const Named<T>& values) {
  write_named(to, values);
}

template <class T>
[[nodiscard]] Json json_of(const T& value) {
  Json json;
  write(json, value);
  return json;
}

// ---- reading: true when the JSON was of the right kind -----------------------------------------------------------

template <class T>
bool read(const Json& from, T& value);
bool read(const Json& from, Scalar& value);
template <Number T>
bool read(const Json& from, T& value);
template <class T>
bool read(const Json& from, std::optional<T>& value);
template <class T>
bool read(const Json& from, std::vector<T>& values);
template <class T, std::size_t Count>
bool read(const Json& from, std::array<T, Count>& values);
template <class T>
bool read(const Json& from, std::map<std::string, T>& values);
template <class T>
bool read(const Json& from, Named<T>& values);

inline bool read(const Json& from, std::string& value) {
  if (!from.is_string()) return false;
  value = from.get<std::string>();
  return true;
}
inline bool read(const Json& from, bool& value) {
  if (!from.is_boolean()) return false;
  value = from.get<bool>();
  return true;
}
inline bool read(const Json& from, Outcome& value) {
  const auto found = from.is_string() ? outcome_named(from.get_ref<const std::string&>()) : std::nullopt;
  if (found) value = *found;
  return found.has_value();
}
inline bool read(const Json& from, Severity& value) {
  const auto found = from.is_string() ? severity_named(from.get_ref<const std::string&>()) : std::nullopt;
  if (found) value = *found;
  return found.has_value();
}

class Reader {
 public:
  static constexpr bool writes = false;
  explicit Reader(const Json& from) : from_(from) {}

  template <class T>
  void operator()(const char* key, T& value) {
    const auto found = from_.find(key);
    if (found != from_.end()) static_cast<void>(read(*found, value));
  }
  template <class T>
  void if_any(const char* key, T& value) {
    (*this)(key, value);
  }
  template <class T>
  void if_asked(const char* key, bool& asked, std::optional<T>& value) {
    asked = from_.contains(key);
    (*this)(key, value);
  }
  template <class T>
  void among(const char* first, std::optional<T>& part) {
    if (!from_.contains(first)) return;
    part.emplace();
    describe(*this, *part);
  }
  [[nodiscard]] const Json& json() const { return from_; }

 private:
  const Json& from_;
};

template <class T>
bool read(const Json& from, T& value) {
  if (!from.is_object()) return false;
  Reader io(from);
  describe(io, value);
  return true;
}
template <Number T>
bool read(const Json& from, T& value) {
  if (std::is_floating_point_v<T> ? !from.is_number() : !from.is_number_integer()) return false;
  if (std::is_unsigned_v<T> && !from.is_number_unsigned() && from.get<std::int64_t>() < 0) return false;
  value = from.get<T>();
  return true;
}
template <class T>
bool read(const Json& from, std::optional<T>& value) {
  value.reset();
  T inner{};
  const bool is_there = !from.is_null() && read(from, inner);
  if (is_there) value = std::move(inner);
  return is_there || from.is_null();
}
template <class T>
bool read(const Json& from, std::vector<T>& values) {
  if (!from.is_array()) return false;
  values.clear();
  for (const Json& one : from) {
    T value{};
    if (read(one, value)) values.push_back(std::move(value));
  }
  return true;
}
template <class T, std::size_t Count>
bool read(const Json& from, std::array<T, Count>& values) {
  if (!from.is_array() || from.size() != Count) return false;
  for (std::size_t i = 0; i < Count; ++i) {
    if (!read(from[i], values[i])) return false;
  }
  return true;
}
// Both kinds of maps take a pair of name and value at their end.
template <class T, class Map>
bool read_named(const Json& from, Map& values) {
  if (!from.is_object()) return false;
  values.clear();
  for (const auto& [key, one] : from.items()) {
    T value{};
    if (read(one, value)) values.insert(values.end(), {key, std::move(value)});
  }
  return true;
}
template <class T>
bool read(const Json& from, std::map<std::string, T>& values) {
  return read_named<T>(from, values);
}
template <class T>
bool read(const Json& from, Named<T>& values) {
  return read_named<T>(from, values);
}

}  // namespace flashmoe::workflow::journal_json
