// Append-only records, one JSON object a line, in .cudadent/records.jsonl of the project. A record is there whole or
// not at all, also after kill -9 in mid-write; a torn last line is skipped by readers and closed by the next writer.
// Readers check content and chain (chain.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe {
struct FileStamp;
}

namespace flashmoe::workflow {

struct Heading;
struct Index;
struct Record;

// What is not as it was written.
struct JournalState {
  int damaged = 0;                      // lines that do not read: a writer was killed
  std::vector<std::string> problems{};  // sentences about changed, missing and foreign records
  std::vector<std::string> notes{};     // about other writers' records, from merged journals
  std::uint64_t missing = 0;            // records of this writer
};

class Journal {
 public:
  explicit Journal(std::string project_directory);
  // Completes what the writer left out, writes, fsyncs. Returns the record as written (with its id).
  [[nodiscard]] Result<Record> append(Record record);
  // All records that read, oldest first, each with its standing.
  [[nodiscard]] Result<std::vector<Record>> read(JournalState* state = nullptr) const;
  // The last ones of them, at most so many: quick also where there are many.
  [[nodiscard]] Result<std::vector<Record>> read_last(std::size_t most, JournalState* state = nullptr) const;
  // Their headings alone, from the index as far as it is good (index.hpp): quick also where there are many.
  [[nodiscard]] Result<std::vector<Heading>> headings(JournalState* state = nullptr) const;
  // The same from the lines alone; the index is made anew.
  [[nodiscard]] Result<std::vector<Heading>> verified_headings(JournalState* state = nullptr) const;
  // A record from its line, which has to be the one that the heading was made of.
  [[nodiscard]] Result<Record> load(const Heading& heading) const;
  [[nodiscard]] Result<Record> find(const std::string& id_prefix) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] Result<std::vector<Heading>> headings_beyond(Index index, const FileStamp& before,
                                                             JournalState* state) const;
  std::string directory_;
  std::string path_;
};

// A record that is not to be written, but shown as one.
[[nodiscard]] Record unwritten(Record record);
// Whether decisions may build on it: unchanged, and not put there under this writer's name.
[[nodiscard]] bool is_usable(const Record& record);
// A record from JSON of any origin, such as another process's --json; what does not read is empty.
[[nodiscard]] Result<Record> parse_record(const std::string& text);

// Build products, worktrees and records in .cudadent are nobody's commit by accident.
void keep_out_of_git(const std::filesystem::path& state_directory);

// "2026-11-15T05:12:46Z"
[[nodiscard]] std::string utc_now();
// The run a record belongs to when its writer names none.
[[nodiscard]] std::string current_run();

}  // namespace flashmoe::workflow
