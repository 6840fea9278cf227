// A C++ callable of a project as a shared library, built once for the content of everything that went into it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct BuiltCallable {
  std::string role{};  // "kernel", "reference", "baseline"
  std::string entry{};
  std::string library{};       // absolute path of the .so
  std::string content_hash{};  // SHA-256 of that file: what is loaded must be what was built
  std::string build_hash{};    // of sources as preprocessed, flags, libraries and compiler version; names the directory
  std::string compiler{};      // "g++ (Debian 12.2.0-14) 12.2.0"
  std::map<std::string, std::string> libraries{};  // path -> SHA-256 of what it is linked with, system libraries aside
  bool from_cache = false;
  double seconds = 0;
};

struct BuildOptions {
  std::chrono::milliseconds compile_limit{300'000};  // one compiler run
  std::function<void()> idle{};                      // called about ten times a second while a compiler runs
  std::string output_root{};                         // empty: <project>/.cudadent/build
  unsigned parallel = 0;                             // compilers at once; 0: as many as the machine has cores
};

// Compiles a C++ callable (CallableKind::cpp) into <project>/.cudadent/build/<hash>/<role>.so, or takes it from there.
// Diagnostics: the compiler's own error with file and line; an undefined symbol or a missing entry with the line to add
// or change.
[[nodiscard]] Result<BuiltCallable> build_cpu(const Project& project, const Callable& callable, const std::string& role,
                                              const BuildOptions& options = {});

// The build_hash that it would have; nothing is built.
[[nodiscard]] Result<std::string> cpu_build_hash(const Project& project, const Callable& callable,
                                                 const std::string& role, const BuildOptions& options = {});

}  // namespace flashmoe::workflow
