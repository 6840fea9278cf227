// NVIDIA's compute-sanitizer over one call on a card: what the virtual GPU sees of itself, a card shows through this
// tool alone. Never run on a card; its command line follows the manual, its verdict is its exit code.
#pragma once

#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// CUDADENT_SANITIZER, PATH, CUDA_HOME, /usr/local/cuda; empty: it is not installed.
[[nodiscard]] std::string find_sanitizer();

struct SanitizerRun {
  std::vector<std::string> tools{};  // that looked
  std::vector<Finding> findings{};
};

// The smallest workload under memcheck, initcheck, racecheck and synccheck, one after the other.
[[nodiscard]] Result<SanitizerRun> run_sanitizer(const std::string& sanitizer, const Project& project,
                                                 const Runnable& kernel, std::uint64_t seed, Progress& progress);

}  // namespace flashmoe::workflow
