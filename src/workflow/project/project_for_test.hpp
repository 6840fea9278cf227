// Tests only: a kernel project in a directory of its own that goes away with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct ProjectForTest {
  Project project;

  ProjectForTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cudadent-test-XXXXXX").string();
    project.directory = mkdtemp(pattern.data());
    project.file = project.directory + "/cudadent.toml";
    project.name = "test";
  }
  ~ProjectForTest() {
    std::error_code ignored;
    std::filesystem::remove_all(project.directory, ignored);
  }
  ProjectForTest(const ProjectForTest&) = delete;
  ProjectForTest& operator=(const ProjectForTest&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(std::filesystem::path(project.directory) / name) << text;
  }
};

inline Callable cpp_callable(const std::string& source, const std::string& entry) {
  return {.kind = CallableKind::cpp,
          .name = "kernel",
          .source = source,
          .entry = entry,
          .sources = {},
          .libraries = {},
          .line = 7};
}

}  // namespace flashmoe::workflow
