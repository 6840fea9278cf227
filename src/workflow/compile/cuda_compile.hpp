// CUDA sources -> cubins, without any GPU: every source for every declared architecture, several at once.
#pragma once

#include <string>
#include <vector>

#include "images/cubin.hpp"
#include "support/progress.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/compile/cpu_build.hpp"

namespace flashmoe::workflow {

struct CudaTarget {
  std::string source{};        // relative to the project
  std::string architecture{};  // "sm_89"
};

struct CompiledTarget {
  CudaTarget target{};
  bool compiled = false;
  bool interrupted = false;
  Cubin cubin{};
  std::string path{};          // of the cubin
  std::string content_hash{};  // its SHA-256
  bool from_cache = false;
  double seconds = 0;
  Diagnostic failure{};  // why not: message is the tool's own text and what we know about the cause
};

// In the order of the project: all sources for the first architecture, then for the next.
[[nodiscard]] std::vector<CompiledTarget> compile_cuda(const Project& project, const CudaToolkit& toolkit,
                                                       const BuildOptions& options, Progress& progress);

// How many compilers may run at once: cores, and 2 GB of free memory for each (template-heavy kernels take 3).
[[nodiscard]] unsigned parallel_compilers(unsigned wanted);

}  // namespace flashmoe::workflow
