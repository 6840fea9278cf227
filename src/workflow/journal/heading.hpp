// What a line of the journal says of its record without the body: enough to list it, to find it, and to check its
// chain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workflow/journal/chain.hpp"

namespace flashmoe::workflow {

struct Record;

struct Heading {
  std::uint64_t offset = 0, length = 0;  // of the line in its file, without its end
  std::string sha256{};                  // of its content; empty: the line is not as a journal writes it
  std::string id{};
  std::optional<Chain> chain{};
  std::string kind{}, time{}, run{}, project{}, device{}, verdict{};
  std::optional<std::string> commit{};
  bool dirty = false;
  double seconds = 0;
  double dollars = 0;
  std::string detail{};  // what people read in a list
  // Never stored: found anew by every reader.
  Standing standing = Standing::chained;
  std::string standing_why{};
  bool operator==(const Heading&) const = default;
};

// Of a record that was read from a line; where that stands is for the caller to say.
[[nodiscard]] Heading heading_of(const Record& record);

// Whether decisions may build on it: unchanged, and not put there under this writer's name.
[[nodiscard]] bool is_usable(const Heading& heading);

}  // namespace flashmoe::workflow
