// What a virtual GPU leaves behind for its controller: a file with one JSON object per launch, findings and counters.
#pragma once

#include <string>
#include <vector>

#include "support/json.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// A name for such a file; the file is removed with it.
class ReportFile {
 public:
  ReportFile();
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The launches in the order they were made; lines that do not read are left out.
[[nodiscard]] std::vector<Json> read_launches(const std::string& path);

// Every finding of every launch, each place once; one makes the gate fail.
void add_virtual_findings(const std::string& path, GateResult& result);

}  // namespace flashmoe::workflow
