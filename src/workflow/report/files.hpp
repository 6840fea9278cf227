// The files of a report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct RunReport;

struct ReportedFile {
  std::string path{};
  std::string kind{};  // "html", "markdown", "svg"
  std::size_t bytes = 0;
  std::string sha256{};
};

// report.html, report.md and report.svg in `directory`, which is made; what is there is replaced.
[[nodiscard]] Result<std::vector<ReportedFile>> write_report(const RunReport& report, const std::string& directory);

}  // namespace flashmoe::workflow
