// Gate 1: everything that can be known about a kernel before it runs. CPU callables become shared libraries; CUDA
// sources become cubins for every declared architecture, without any GPU, and the cubins are read and checked.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/gate/verdict.hpp"
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

struct BuildGate {
  GateResult result;
  std::map<std::string, BuiltCallable> built;  // by role; C++ callables only
};

// Builds kernel, reference and baseline (what of them is C++), then every CUDA source for every architecture.
[[nodiscard]] BuildGate run_build_gate(const Project& project, const BuildOptions& options, Progress& progress);

}  // namespace flashmoe::workflow
