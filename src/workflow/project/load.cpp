// load_project: text -> TOML -> checked keys -> values -> the point -> checked project. Each step goes on where it can,
// so that all mistakes of a file are told at once.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <filesystem>

#include "support/whole_file.hpp"
#include "workflow/project/check_keys.hpp"
#include "workflow/project/check_project.hpp"
#include "workflow/project/point.hpp"
#include "workflow/project/project.hpp"
#include "workflow/project/read.hpp"
#include "workflow/project/tunables.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

Result<std::string> text_in(const fs::path& file) {
  if (auto text = whole_file(file)) return *std::move(text);
  return Diagnostic{.message = "cannot be read",
                    .fix = fmt::format("chmod u+r {}", file.string()),
                    .file = file.string(),
                    .code = codes::project_unreadable};
}

Result<Values> read_point(const Project& project) {
  const fs::path file = fs::path(project.directory) / point_file_name;
  std::error_code error;
  if (!fs::exists(file, error)) return project.point;
  const auto text = text_in(file);
  if (!text) return text.error();
  return parse_point(project, *text, file.string());
}

// Tunables, and the point that point.toml says.
Result<Done> tune(const toml::table& root, const Locations& locations, bool with_files, Project& project) {
  if (auto tuned = read_tunables(root, locations, project); !tuned) return tuned;
  if (with_files) {
    auto point = read_point(project);
    if (!point) return point.error();
    project.point = std::move(*point);
  }
  return put_point_into_names(project, locations);
}

Result<Project> parse(const std::string& text, const std::string& file, bool with_files) {
  Locations locations(file);
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    if (file.ends_with(".cu") || file.ends_with(".cpp") || file.ends_with(".py")) {
      return Diagnostic{.message = file + " is a source; a project is a directory with cudadent.toml and a reference",
                        .fix = "write these two beside it: cudadent new shows how, docs/virtual-gpu.md explains them",
                        .code = codes::project_not_toml};
    }
    Diagnostic problem = locations.error_at({static_cast<int>(at.line), static_cast<int>(at.column)}, "",
                                            fmt::format("is not TOML: {}", error.description()),
                                            "check quotes, brackets and commas there; texts stand in \"...\"");
    problem.code = codes::project_not_toml;
    return problem;
  }
  Mistakes mistakes(check_keys(root, locations));
  Project project = read_project(root, locations, mistakes);
  project.file = file;
  project.directory = fs::path(file).parent_path().string();
  if (!mistakes.touch("tunables") && !mistakes.touch("tunable_rules")) {
    if (auto tuned = tune(root, locations, with_files, project); !tuned) {
      Diagnostic problem = tuned.error();
      if (problem.code.empty()) problem.code = codes::project_value;
      if (mistakes.empty()) return problem;  // all that follows stands on the point
    }
  }
  check_project(project, locations, mistakes);
  if (with_files) check_files(project, locations, mistakes);
  if (!mistakes.empty()) return mistakes.as_one();
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
    return Diagnostic{.message = "there is no kernel project here",
                      .fix = "name a directory with a cudadent.toml, or make one: cudadent new",
                      .file = file.string(),
                      .code = codes::project_not_found};
  }
  const auto text = text_in(file);
  if (!text) return text.error();
  return parse(*text, file.string(), true);
}

}  // namespace flashmoe::workflow
