// The headings of a journal, kept so that a reader need not parse every line again. It stands beside the writer's
// memory (writer.hpp), where no kernel may write, and is never believed over the lines: it counts only while the file
// is the very one that was read, which its stamp tells, and only as the seal names it. Whatever does not fit is made
// anew from the lines (docs/adr/0019-index-of-the-journal.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workflow/journal/heading.hpp"
#include "workflow/journal/line_file.hpp"

namespace flashmoe::workflow {

struct Index {
  std::uint64_t covered = 0;  // bytes of the file, from its beginning
  int damaged = 0;            // lines among them that do not read
  std::vector<Heading> headings{};
};

// The index, where the file is as it was left; else nothing.
[[nodiscard]] std::optional<Index> sealed_index(const std::string& journal, const FileStamp& now);
// Stores it for a file that is `now`; the caller holds the journal's lock. What cannot be stored is made anew.
void seal_index(const std::string& journal, const Index& index, const FileStamp& now);
// After a line was appended to a file that was `before`: the index stays good for what it covers.
void move_seal(const std::string& journal, const FileStamp& before, const FileStamp& after);
// The index is not to be used again.
void break_seal(const std::string& journal);

}  // namespace flashmoe::workflow
