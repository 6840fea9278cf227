// Kernels whose speed relative to each other is known: the same chain of operations, longer or shorter.
#pragma once

#include <filesystem>

#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

struct KnownSpeed {
  Project project;
  Runnable kernel, reference;
};

inline constexpr int known_speed_steps = 10000;  // of the one the others are slower or faster than

// A project below `root` whose kernel takes a time proportional to `steps` (over 1000).
[[nodiscard]] Result<KnownSpeed> build_with_steps(const std::filesystem::path& root, int steps);

}  // namespace flashmoe::workflow
