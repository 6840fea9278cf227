#include "workflow/project/scaffold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "workflow/project/suggest.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

Diagnostic refused(const char* code, std::string message, std::string fix) {
  return {.message = std::move(message), .fix = std::move(fix), .code = code};
}

// cudadent.toml begins with the name; everything else stays as it is.
std::string renamed(std::string_view text, std::string_view from, const std::string& to) {
  const std::string line = fmt::format("name = \"{}\"", from);
  std::string out(text);
  const std::size_t at = out.find(line);
  if (at != std::string::npos) out.replace(at, line.size(), fmt::format("name = \"{}\"", to));
  return out;
}

}  // namespace

Result<std::vector<std::string>> make_project(const std::string& directory, const std::string& name,
                                              const std::string& template_name) {
  std::vector<std::string> known;
  const Template* chosen = nullptr;
  for (const Template& candidate : project_templates()) {
    known.emplace_back(candidate.name);
    if (candidate.name == template_name) chosen = &candidate;
  }
  if (!chosen) {
    return refused(codes::usage_example,
                   fmt::format("there is no example '{}'; examples are {}", template_name, list_of(known)),
                   suggestion(template_name, known, ""));
  }
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    return refused(codes::usage_name, fmt::format("'{}' cannot be a project's name", name),
                   "give a name of letters, digits, '_', '-' and '.': cudadent new my_kernel");
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return refused(codes::environment_disk, fmt::format("{} cannot be made: {}", directory, error.message()),
                   "choose another directory");
  for (const auto& [file, content] : chosen->files) {
    const fs::path path = fs::path(directory) / file;
    if (fs::exists(fs::symlink_status(path, error))) {
      return refused(codes::usage_file_exists, fmt::format("{} is already there; nothing was written", path.string()),
                     "go to an empty directory: mkdir my_kernel && cd my_kernel && cudadent new");
    }
  }
  std::vector<std::string> written;
  for (const auto& [file, content] : chosen->files) {
    const fs::path path = fs::path(directory) / file;
    std::ofstream stream(path, std::ios::binary);
    stream << (file == "cudadent.toml" ? renamed(content, chosen->name, name) : std::string(content));
    stream.close();
    if (!stream)
      return refused(codes::environment_disk, fmt::format("{} cannot be written", path.string()),
                     "check space and permissions");
    written.emplace_back(file);
  }
  return written;
}

}  // namespace flashmoe::workflow
