#include "workflow/journal/chain.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>

#include "support/sha256.hpp"
#include "support/text.hpp"
#include "workflow/journal/heading.hpp"

namespace flashmoe::workflow {
namespace {

const std::string by_writer = "by writer ";

// Of one writer: several records may claim one place.
struct WriterLinks {
  std::map<std::uint64_t, std::vector<Heading*>> places{};
  std::set<std::uint64_t> changed{};  // places whose record does not hold: they are not missing too
};

void mark(Heading& heading, Standing standing, std::string why) {
  heading.standing = standing;
  heading.standing_why = std::move(why);
}

std::string gap_text(std::uint64_t first, std::uint64_t last, const std::string& whose) {
  return first == last ? fmt::format("record number {} of {} is missing", first, whose)
                       : fmt::format("records number {} to {} of {} are missing", first, last, whose);
}

// From the last record to the first, since each says what came before it. Returns how many are missing.
std::uint64_t walk_back(WriterLinks& links, const std::optional<ChainEnd>& end, const std::string& whose,
                        std::vector<std::string>& problems) {
  std::uint64_t missing = 0;
  const auto gap = [&](std::uint64_t first, std::uint64_t last) {
    while (first <= last && links.changed.contains(first)) ++first;
    while (first <= last && links.changed.contains(last)) --last;
    if (first > last) return;
    problems.push_back(gap_text(first, last, whose));
    missing += last - first + 1;
  };
  std::string expected = end ? end->sha256 : "";      // of the record at `below - 1`; empty: unknown
  std::uint64_t below = end ? end->sequence + 1 : 0;  // 0: no place was seen yet
  for (auto place = links.places.rbegin(); place != links.places.rend(); ++place) {
    auto& [sequence, claims] = *place;
    if (below != 0 && sequence >= below) {
      for (Heading* claim : claims) mark(*claim, Standing::foreign, "this writer never wrote it");
      continue;
    }
    if (below != 0 && sequence + 1 < below) {
      gap(sequence + 1, below - 1);
      expected.clear();
    }
    const Heading* held = nullptr;
    for (Heading* claim : claims) {
      const bool fits = held != nullptr ? claim->sha256 == held->sha256 : expected.empty() || claim->sha256 == expected;
      if (!fits) mark(*claim, Standing::foreign, "another record has its place in the chain");
      if (fits && held == nullptr) held = claim;
    }
    if (held == nullptr) gap(sequence, sequence);
    expected = held != nullptr ? held->chain->previous : "";
    below = sequence;
  }
  if (below > 1) gap(1, below - 1);
  return missing;
}

}  // namespace

const char* name_of(Standing standing) {
  switch (standing) {
    case Standing::chained:
      return "chained";
    case Standing::unchained:
      return "unchained";
    case Standing::foreign:
      return "foreign";
    case Standing::changed:
      break;
  }
  return "changed";
}

std::string content_sha256(const std::string& line) {
  constexpr std::string_view id_key = R"("id":")";
  const auto comma = line.find(',');
  if (comma == std::string::npos || !line.starts_with(R"({"version":)")) return {};
  const auto id_begin = comma + 1 + id_key.size();
  if (line.compare(comma + 1, id_key.size(), id_key) != 0 || line.size() < id_begin + id_digits + 2) return {};
  if (line.compare(id_begin + id_digits, 2, "\",") != 0) return {};
  return sha256_hex(line.substr(0, comma + 1) + line.substr(id_begin + id_digits + 2));
}

bool is_usable(Standing standing, const std::string& why) {
  return standing == Standing::chained || standing == Standing::unchained ||
         (standing == Standing::foreign && why.starts_with(by_writer));
}

ChainCheck check_chains(std::vector<Heading>& headings, const std::string& this_writer,
                        const std::optional<ChainEnd>& end) {
  ChainCheck check;
  std::map<std::string, WriterLinks> writers;
  bool chains_began = false;
  for (Heading& heading : headings) {
    const bool holds = !heading.sha256.empty() && heading.sha256.compare(0, id_digits, heading.id) == 0;
    if (!holds) {
      mark(heading, Standing::changed, "its content is not what its id was made of");
      if (heading.chain) writers[heading.chain->writer].changed.insert(heading.chain->sequence);
    } else if (heading.chain && heading.chain->sequence == 0) {
      mark(heading, Standing::foreign, "its place in the chain is none");
    } else if (heading.chain) {
      chains_began = true;
      const bool ours = heading.chain->writer == this_writer;
      mark(heading, ours ? Standing::chained : Standing::foreign, ours ? "" : by_writer + heading.chain->writer);
      writers[heading.chain->writer].places[heading.chain->sequence].push_back(&heading);
    } else if (chains_began) {
      mark(heading, Standing::foreign, "it has no chain, but stands behind records that have one");
    } else {
      mark(heading, Standing::unchained, "from before records were chained");
    }
  }
  if (end && end->sequence > 0) writers[this_writer];  // all of its records may be gone
  for (auto& [writer, links] : writers) {
    const bool ours = writer == this_writer;
    const std::string whose = ours ? "this writer" : "writer " + printable(writer);
    const std::uint64_t missing = walk_back(links, ours ? end : std::nullopt, whose, check.problems);
    if (ours) check.missing = missing;
    // Merged journals: one sentence for all that came along.
    if (!ours) check.notes.push_back(fmt::format("{} records are foreign: by {}", links.places.size(), whose));
  }
  for (const Heading& heading : headings) {
    if (is_usable(heading.standing, heading.standing_why)) continue;
    check.problems.push_back(printable(fmt::format("record {} ({}) is {}: {}", heading.id, heading.verdict,
                                                   name_of(heading.standing), heading.standing_why)));
  }
  return check;
}

}  // namespace flashmoe::workflow
