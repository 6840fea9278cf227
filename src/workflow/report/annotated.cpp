// Hot lines of a kernel's sources, with what the model and the counters say about each.
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "support/whole_file.hpp"
#include "workflow/report/run_report.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double hot_share = 0.005;
constexpr double least_file_share = 0.03;  // the toolkit's own headers would bury the kernel
constexpr int neighbours = 1;
constexpr std::size_t most_annotated = 4;
constexpr std::size_t most_line_bytes = 200;

// The compiler may have seen the file in a worktree that is gone, or in a cache's: the longest end of its path that is
// in the repository is the file.
std::filesystem::path inside(const std::filesystem::path& root, const std::filesystem::path& file) {
  for (auto begin = file.begin(); begin != file.end(); ++begin) {
    std::filesystem::path end;
    for (auto part = begin; part != file.end(); ++part) end /= *part;
    std::error_code ignored;
    if (!end.is_relative() || !std::filesystem::is_regular_file(root / end, ignored)) continue;
    // A link that leads out of the repository is no source of it.
    const auto real = std::filesystem::canonical(root / end, ignored).string();
    if (real.starts_with(std::filesystem::canonical(root, ignored).string() + "/")) return end;
  }
  return {};
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(whole_file(path.string()).value_or(""));
  for (std::string line; std::getline(text, line);) lines.push_back(line.substr(0, most_line_bytes));
  return lines;
}

using LinesByNumber = std::map<int, AnnotatedLine>;

void add_neighbours(LinesByNumber& lines, const std::vector<std::string>& source) {
  std::vector<int> hot;
  for (const auto& [number, line] : lines) hot.push_back(number);
  for (const int number : hot) {
    for (int near = number - neighbours; near <= number + neighbours; ++near) {
      if (near >= 1 && near <= static_cast<int>(source.size())) lines[near].number = near;
    }
  }
  for (auto& [number, line] : lines) {
    if (number <= static_cast<int>(source.size())) line.text = source[static_cast<std::size_t>(number) - 1];
  }
}

}  // namespace

std::vector<AnnotatedFile> annotated_sources(const LaunchPrediction& launch, const std::string& root) {
  std::map<std::string, AnnotatedFile> files;
  std::map<std::string, LinesByNumber> hot;
  for (const LinePressure& line : launch.lines) {
    if (line.file.empty()) continue;
    files[line.file].share += line.share;
    if (line.share < hot_share) continue;
    hot[line.file][line.line] = {.number = line.line,
                                 .share = line.share,
                                 .waits = std::string(name_of(line.mostly())),
                                 .executions = line.executions};
  }
  for (const ReportedLine& line : launch.report.source_lines) {
    const auto file = hot.find(line.file);
    if (file == hot.end()) continue;
    const auto found = file->second.find(line.line);
    if (found == file->second.end()) continue;
    found->second.bank_conflicts = line.shared_bank_conflicts;
    found->second.sectors = line.global_sectors;
    found->second.sectors_ideal = line.global_sectors_ideal;
  }
  std::vector<AnnotatedFile> annotated;
  for (auto& [path, file] : files) {
    if (file.share < least_file_share || hot[path].empty()) continue;
    const std::filesystem::path place = inside(root, path);
    file.name = place.empty() ? std::filesystem::path(path).filename().string() : place.string();
    if (!place.empty()) add_neighbours(hot[path], lines_of(std::filesystem::path(root) / place));
    for (auto& [number, line] : hot[path]) file.lines.push_back(std::move(line));
    annotated.push_back(std::move(file));
  }
  std::stable_sort(annotated.begin(), annotated.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  if (annotated.size() > most_annotated) annotated.resize(most_annotated);
  return annotated;
}

}  // namespace flashmoe::workflow
