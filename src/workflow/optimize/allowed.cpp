#include "workflow/optimize/allowed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "support/whole_file.hpp"
#include "workflow/advise/rules.hpp"
#include "workflow/project/point.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// As a word of its own: "half" is not named by "halfway".
bool names(const std::string& text, const std::string& word) {
  if (word.empty()) return false;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// What an #include or an import would say of this file: "half.hpp", "numpy".
bool names_file(const std::string& text, const fs::path& file) {
  if (file.extension() != ".py") return names(text, file.filename().string());
  if (names(text, file.stem().string())) return true;
  return std::any_of(file.begin(), std::prev(file.end()),  // a package
                     [&](const fs::path& folder) { return names(text, folder.string()); });
}

bool is_header(const fs::path& file) {
  constexpr const char* endings[] = {".h", ".hpp", ".cuh", ".inl"};
  return std::any_of(std::begin(endings), std::end(endings),
                     [&](const char* ending) { return file.extension() == ending; });
}

bool is_kernel(const Project& project, const std::string& name) {
  const auto among = [&](const std::vector<std::string>& sources) {
    return std::find(sources.begin(), sources.end(), name) != sources.end();
  };
  return name == project.kernel.source || among(project.kernel.sources) || among(project.cuda_sources);
}

std::vector<fs::path> files_of(const Project& project) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (auto at = fs::recursive_directory_iterator(project.directory, ignored); at != fs::recursive_directory_iterator();
       at.increment(ignored)) {
    if (at->path().filename() == ".cudadent" || at->path().filename() == ".git") {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(ignored)) {
      files.push_back(at->path().lexically_relative(project.directory));
    }
  }
  return files;
}

// The judges' files and the text of all of them.
struct Judges {
  std::set<std::string> files{};
  std::string text{};
};

Judges judges_of(const Project& project) {
  Judges judges;
  const auto take = [&](const std::string& name) {
    if (name.empty() || !judges.files.insert(name).second) return false;
    if (const auto content = whole_file(project.directory + "/" + name)) judges.text += *content + "\n";
    return true;
  };
  for (const Callable* judge : {&project.reference, &project.baseline, &project.torch_baseline}) {
    take(judge->source);
    for (const std::string& source : judge->sources) take(source);
  }
  const std::vector<fs::path> all = files_of(project);
  for (bool grows = true; grows;) {
    grows = false;
    for (const fs::path& file : all) {
      if (!is_kernel(project, file.string()) && names_file(judges.text, file)) grows |= take(file.string());
    }
  }
  return judges;
}

Diagnostic refused(const std::string& path, const std::string& why) {
  return {.message = fmt::format("a proposal may not change '{}': {}", path, why),
          .fix = "change the kernel's own sources, its headers, or point.toml",
          .code = codes::proposal_not_allowed};
}

// Of the CUDA baseline, where that stands inside the project.
bool is_of_baseline(const Project& project, const fs::path& path) {
  if (project.cuda_baseline.empty()) return false;
  const fs::path inside = path.lexically_relative(fs::path(project.cuda_baseline).lexically_normal());
  return !inside.empty() && *inside.begin() != "..";
}

// Why this path is none that anybody may propose; empty: it may be one.
std::string objection_to(const Project& project, const Judges& judges, const fs::path& path) {
  if (path.empty() || path.is_absolute() || *path.begin() == "..") return "it is outside the project";
  for (const fs::path& part : path) {
    if (part == ".git" || part == ".cudadent") return "it is the tool's own";
  }
  const std::string name = path.string();
  if (name == "cudadent.toml" || name == project_rules_file) return "it says what is judged, and how";
  if (judges.files.contains(name)) return "what judges reads it";
  if (is_of_baseline(project, path)) return "it is what to beat";
  if (is_kernel(project, name) || name == point_file_name) return "";
  if (names_file(judges.text, path)) return "what judges would read it";
  return is_header(path) ? "" : "it is no part of the kernel";
}

}  // namespace

std::set<std::string> judging_files(const Project& project) {
  return judges_of(project).files;
}

Result<Done> check_allowed(const Project& project, const FileChanges& files) {
  const Judges judges = judges_of(project);
  for (const auto& [path, content] : files) {
    const std::string objection = objection_to(project, judges, fs::path(path).lexically_normal());
    if (!objection.empty()) return refused(path, objection);
  }
  return Done{};
}

}  // namespace flashmoe::workflow
