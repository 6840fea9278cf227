// Two records side by side: every single value of the two, samples and times of writing aside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace flashmoe::workflow {

struct Record;

using Scalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

struct Difference {
  std::string key{};  // "gain.mean", "gates[1].outcome"
  Scalar a{}, b{};
  std::optional<double> ratio{};  // of two numbers, b over a
  bool operator==(const Difference&) const = default;
};

struct SideBySide {
  std::string a{}, b{};  // ids
  int same = 0;          // values
  std::vector<Difference> differs{};
};

[[nodiscard]] SideBySide side_by_side(const Record& a, const Record& b);
[[nodiscard]] std::string side_by_side_text(const SideBySide& difference);

// What may explain that two runs of one recipe came out differently: machine, tools, and what was built.
[[nodiscard]] std::vector<Difference> explain(const Record& then, const Record& now);

// As JSON would write it, but texts without quotes.
[[nodiscard]] std::string text_of(const Scalar& value);

}  // namespace flashmoe::workflow
