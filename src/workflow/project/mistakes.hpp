// What is wrong with a file, all of it. What only follows from a mistake that was told is not told again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

class Mistakes {
 public:
  explicit Mistakes(std::vector<Diagnostic> told = {}) : all_(std::move(told)) {}

  // Left out when its key, one above it or one below it was told already.
  void add(Diagnostic problem);
  void add(std::optional<Diagnostic> problem) {
    if (problem) add(std::move(*problem));
  }
  // Whether something was told about this key, above or below it.
  [[nodiscard]] bool touch(std::string_view key) const;
  [[nodiscard]] bool empty() const { return all_.empty(); }
  // The first of the file, with the others behind it.
  [[nodiscard]] Diagnostic as_one() const;

 private:
  std::vector<Diagnostic> all_;
};

}  // namespace flashmoe::workflow
