// Whether records are what was written: every line has the hash of its content, and every writer's lines are a chain,
// each with the hash of the one before. So a changed, a missing and a foreign record can be named. This is honesty
// against accident and against a kernel that writes into the project, not against the owner of the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct Heading;

// The place of a record among those of its writer.
struct Chain {
  std::string writer{};
  std::uint64_t sequence = 0;  // from 1
  std::string previous{};      // SHA-256 of the content before it; empty for the first
  bool operator==(const Chain&) const = default;
};

enum class Standing {
  chained,    // by this writer, unchanged, in its place
  unchained,  // from before there were chains
  foreign,    // not by this writer
  changed,    // its content is not what its id says
};
[[nodiscard]] const char* name_of(Standing standing);

// The last record of a writer, as the writer itself remembers it.
struct ChainEnd {
  std::uint64_t sequence = 0;
  std::string sha256{};
  bool operator==(const ChainEnd&) const = default;
};

// SHA-256 of a line without its id, byte for byte; empty when the line is not as a journal writes it.
[[nodiscard]] std::string content_sha256(const std::string& line);
inline constexpr int id_digits = 12;  // of it

struct ChainCheck {
  std::vector<std::string> problems{};  // sentences: one for each record that is not as it was, and each gap
  std::vector<std::string> notes{};     // whole chains of other writers: journals were merged
  std::uint64_t missing = 0;            // records of this writer
};
// Sets the standing of each record. `end` is unset when this writer does not remember.
[[nodiscard]] ChainCheck check_chains(std::vector<Heading>& headings, const std::string& this_writer,
                                      const std::optional<ChainEnd>& end);
// Whether decisions may build on a record of this standing: unchanged, and not put there under this writer's name.
[[nodiscard]] bool is_usable(Standing standing, const std::string& why);

}  // namespace flashmoe::workflow
