// load_project: text -> TOML -> checked keys -> values -> the point -> checked project.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "workflow/project/check_keys.hpp"
#include "workflow/project/check_project.hpp"
#include "workflow/project/point.hpp"
#include "workflow/project/project.hpp"
#include "workflow/project/read.hpp"
#include "workflow/project/tunables.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

Diagnostic unreadable(const std::string& file, const std::string& message, const std::string& fix) {
  Diagnostic diagnostic;
  diagnostic.message = message;
  diagnostic.fix = fix;
  diagnostic.file = file;
  return diagnostic;
}

Result<std::string> text_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return unreadable(file.string(), "cannot be read", fmt::format("chmod u+r {}", file.string()));
  return text;
}

Result<Values> read_point(const Project& project) {
  const fs::path file = fs::path(project.directory) / point_file_name;
  std::error_code error;
  if (!fs::exists(file, error)) return project.point;
  const auto text = text_in(file);
  if (!text) return text.error();
  return parse_point(project, *text, file.string());
}

Result<Project> parse(const std::string& text, const std::string& file, bool with_files) {
  Locations locations(file);
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    return locations.error_at({static_cast<int>(at.line), static_cast<int>(at.column)}, "",
                              fmt::format("is not TOML: {}", error.description()),
                              "check quotes, brackets and commas there; texts stand in \"...\"");
  }
  if (auto checked = check_keys(root, locations); !checked) return checked.error();
  Result<Project> project = read_project(root, locations);
  if (!project) return project;
  project->file = file;
  project->directory = fs::path(file).parent_path().string();
  if (auto tuned = read_tunables(root, locations, *project); !tuned) return tuned.error();
  if (with_files) {
    auto point = read_point(*project);
    if (!point) return point.error();
    project->point = std::move(*point);
  }
  if (auto named = put_point_into_names(*project, locations); !named) return named.error();
  if (auto checked = check_project(*project, locations); !checked) return checked.error();
  if (with_files) {
    if (auto checked = check_files(*project, locations); !checked) return checked.error();
  }
  return project;
}

}  // namespace

Result<Project> parse_project(const std::string& text, const std::string& file) {
  return parse(text, file, false);
}

Result<Project> load_project(const std::string& path) {
  std::error_code error;
  fs::path file = fs::absolute(path.empty() ? "." : path, error).lexically_normal();
  if (fs::is_directory(file, error)) file = (file / "cudadent.toml").lexically_normal();
  if (!fs::is_regular_file(file, error)) {
    return unreadable(file.string(), "there is no kernel project here",
                      "name a directory with a cudadent.toml, or make one: cudadent new");
  }
  const auto text = text_in(file);
  if (!text) return text.error();
  return parse(*text, file.string(), true);
}

}  // namespace flashmoe::workflow
