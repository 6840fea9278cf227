// Where every value of a cudadent.toml stands, by its dotted key: "inputs.a.type", "cuda.instances[0].grid".
#pragma once

#include <map>
#include <string>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct Position {
  int line = 0;
  int column = 0;
};

class Locations {
 public:
  explicit Locations(std::string file) : file_(std::move(file)) {}

  void add(const std::string& key, Position position) { positions_[key] = position; }

  [[nodiscard]] bool has(const std::string& key) const { return positions_.count(key) > 0; }

  // The value's place, or that of the table it would be in.
  [[nodiscard]] Position of(const std::string& key) const;

  // A diagnostic at that place. `offset` counts characters inside a string value.
  [[nodiscard]] Diagnostic error(const std::string& key, std::string message, std::string fix = "",
                                 int offset = -1) const;
  [[nodiscard]] Diagnostic error_at(Position position, const std::string& key, std::string message,
                                    std::string fix = "") const;

 private:
  std::string file_;
  std::map<std::string, Position> positions_;
};

}  // namespace flashmoe::workflow
