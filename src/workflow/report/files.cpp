#include "workflow/report/files.hpp"

#include <filesystem>
#include <fstream>

#include "support/sha256.hpp"
#include "workflow/report/run_report.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Diagnostic not_written(const std::filesystem::path& path) {
  return {.message = "cannot write " + path.string(),
          .fix = "name a directory that can be written: --out",
          .code = codes::environment_disk};
}

}  // namespace

Result<std::vector<ReportedFile>> write_report(const RunReport& report, const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return not_written(folder);
  struct Content {
    const char* name;
    const char* kind;
    std::string text;
  };
  const std::vector<Content> contents{{"report.html", "html", html_of(report)},
                                      {"report.md", "markdown", markdown_of(report.summary)},
                                      {"report.svg", "svg", picture_of(report)}};
  std::vector<ReportedFile> files;
  for (const Content& content : contents) {
    const std::filesystem::path path = folder / content.name;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << content.text;
    file.close();
    if (!file) return not_written(path);
    files.push_back({.path = path.string(),
                     .kind = content.kind,
                     .bytes = content.text.size(),
                     .sha256 = sha256_hex(content.text)});
  }
  return files;
}

}  // namespace flashmoe::workflow
