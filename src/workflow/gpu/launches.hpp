// A project's CUDA kernels as something a session can run: images for the device, and the launches of one call with
// geometry and arguments evaluated for a workload.
#pragma once

#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/compile/cuda_compile.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

// What a run on a virtual GPU looks for and leaves behind.
struct VirtualOptions {
  // VGPU_CHECK: "all", "none", or a list. A project's kernel is a function of its inputs: calls leave nothing behind.
  std::string checks = "all,leftovers";
  std::string report{};    // VGPU_REPORT: a file for findings and counters, one JSON object a line
  std::uint64_t seed = 0;  // VGPU_SEED: of the schedule
};

// Compiles what is not compiled for the device's architecture yet.
[[nodiscard]] Result<Runnable> gpu_runnable(const Project& project, const DeviceSelector& device,
                                            const VirtualOptions& options, Progress& progress);

// The same with its launches' tensors counted as another project has them; both have them by name.
[[nodiscard]] Result<Runnable> counted_as(Runnable runnable, const Project& own, const Project& other);

// What the arguments of the project's kernels are, for messages.
[[nodiscard]] ArgumentNames argument_names(const Project& project, const std::vector<CompiledTarget>& targets);

// The launches of one call for this workload, at the project's point.
[[nodiscard]] Result<std::vector<Launch>> launches_of(const Project& project,
                                                      const std::vector<CompiledTarget>& targets,
                                                      const Values& workload);

}  // namespace flashmoe::workflow
