#include "workflow/runner/confine_kernel.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "support/process.hpp"
#include "support/text.hpp"
#include "workflow/runner/session.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// Where the interpreter has its library and its packages; asked once per process.
const std::vector<std::string>& python_paths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> found;
    const std::string program = python_program();
    const auto ran = run_process(
        {.argv = {program, "-I", "-B", "-c",
                  "import sys; print(*[sys.executable, sys.prefix, sys.base_prefix, *sys.path], sep='\\n')"},
         .short_environment = true});
    if (!ran || !ran->ok()) return found;
    std::istringstream lines(ran->out);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) continue;
      found.push_back(line);
      std::error_code error;
      found.push_back(fs::canonical(line, error).string());
    }
    // A program that only finds the interpreter (a shim) lies in a tree of its own.
    if (program.find('/') != std::string::npos) found.push_back(fs::path(program).parent_path().parent_path().string());
    return found;
  }();
  return paths;
}

}  // namespace

Confinement confinement_of(const Project& project, const Runnable& runnable) {
  Confinement may;
  may.readable = {project.directory, fs::path(runnable.library).parent_path().string()};
  may.readable.insert(may.readable.end(), runnable.readable.begin(), runnable.readable.end());
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);  // the worker is this program
  may.readable.push_back(program.string());
  may.readable.push_back((program.parent_path().parent_path() / "lib").string());
  if (const char* paths = std::getenv("LD_LIBRARY_PATH")) {
    for (std::string& path : colon_separated(paths)) may.readable.push_back(std::move(path));
  }
  if (runnable.kind == CallableKind::python) {
    may.readable.insert(may.readable.end(), python_paths().begin(), python_paths().end());
  }
  return may;
}

}  // namespace flashmoe::workflow
