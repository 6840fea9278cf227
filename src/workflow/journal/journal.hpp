// Append-only records, one JSON object a line, in .cudadent/records.jsonl of the project. A record is there whole or
// not at all, also after kill -9 in mid-write; a torn last line is skipped by readers and closed by the next writer.
#pragma once

#include <string>
#include <vector>

#include "support/json.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

inline constexpr int record_version = 1;

// Fields every record has: version, id (content hash, 12 hex digits), kind (gate, compare, selftest, known_good, ...),
// time (UTC, ISO 8601), run (CUDADENT_RUN, else the UTC day), project, commit (and whether the tree was dirty), device,
// environment, hashes, verdict, seconds, cost. What the writer leaves out is completed here; `cost` is computed from
// "seconds" and "cost_per_hour": {"machine": $, "agent": $} when the writer gives these.
class Journal {
 public:
  explicit Journal(std::string project_directory);
  // Completes the common fields, writes, fsyncs. Returns the record as written (with its id).
  [[nodiscard]] Result<Json> append(Json record);
  // All records that read, oldest first; `damaged` counts lines that do not.
  [[nodiscard]] Result<std::vector<Json>> read(int* damaged = nullptr) const;
  [[nodiscard]] Result<Json> find(const std::string& id_prefix) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string directory_;
  std::string path_;
};

// "2026-11-15T05:12:46Z"
[[nodiscard]] std::string utc_now();
// The run a record belongs to when its writer names none.
[[nodiscard]] std::string current_run();

}  // namespace flashmoe::workflow
