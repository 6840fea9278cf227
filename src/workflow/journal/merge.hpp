// Journals of several machines made one. A record is known by the hash of its content, so that merging twice, in any
// order and grouping, gives the same file: records in the order of their times, those of one writer in the order of its
// chain, those from before there were chains first.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/journal/journal.hpp"

namespace flashmoe::workflow {

struct MergeReport {
  std::size_t journals = 0;
  std::size_t records = 0;               // there are now
  std::size_t added = 0;                 // that were not there
  std::size_t duplicates = 0;            // that were already, once or several times
  std::vector<std::string> conflicts{};  // sentences: records that contradict one another; all of them are kept
  std::vector<std::string> left_out{};   // sentences: records and lines that are not as they were written
  JournalState state{};                  // of the result, checked line by line
  [[nodiscard]] bool holds() const { return conflicts.empty() && left_out.empty() && state.problems.empty(); }
};

// `sources` are directories of projects, or files of records. A symbolic link, a file that is not there and the journal
// of another project are refused before anything is written; so is a journal to merge into that does not hold itself.
// `project_name`: as cudadent.toml has it; empty: unknown.
[[nodiscard]] Result<MergeReport> merge_journals(const std::string& project_directory, const std::string& project_name,
                                                 const std::vector<std::string>& sources);

}  // namespace flashmoe::workflow
