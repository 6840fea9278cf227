// A value, or a diagnostic that says where, what and how to fix it. It turns into an exit code only at the edge.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace flashmoe {

struct Diagnostic {
  std::string message;  // what is wrong, with the value and what is allowed
  std::string fix{};    // what to do, as a command or an edit; may be empty
  std::string file{};
  int line = 0;                    // 1-based; 0: unknown
  int column = 0;                  // 1-based; 0: unknown
  std::string key{};               // dotted path in a configuration file
  std::string code{};              // of the kind of problem, for programs; empty: none in particular
  std::vector<Diagnostic> more{};  // what else is wrong, where all of it is told at once

  // "file:line:column: key: message (fix: ...)", leaving out what is not known; a line each when there are more.
  [[nodiscard]] std::string to_string() const;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Diagnostic diagnostic) : held_(std::in_place_index<1>, std::move(diagnostic)) {}  // NOLINT

  explicit operator bool() const { return held_.index() == 0; }
  T& operator*() { return std::get<0>(held_); }
  const T& operator*() const { return std::get<0>(held_); }
  T* operator->() { return &std::get<0>(held_); }
  const T* operator->() const { return &std::get<0>(held_); }
  [[nodiscard]] const Diagnostic& error() const { return std::get<1>(held_); }

 private:
  std::variant<T, Diagnostic> held_;
};

struct Done {};  // Result<Done>: nothing to return but success

}  // namespace flashmoe
