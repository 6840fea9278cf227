// What the host can run, from what a project declares.
#pragma once

#include <string>

#include "support/result.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

// What to beat on a card in torch, where the project has such a thing.
[[nodiscard]] const Callable* card_rival(const Project& project);

// Whether what runs and is judged there is the CUDA kernel; else it is a twin of the C++ one.
[[nodiscard]] bool runs_cuda(const Project& project, const DeviceSelector& device);

// Where the gates run when nobody says so: a project without a C++ kernel has only its GPU. Empty: it says nothing.
[[nodiscard]] std::string device_of(const Project& project);

// The kind of problem when this role does not build: only the kernel's own failure is a verdict on it.
[[nodiscard]] std::string build_code(const std::string& role, const Diagnostic& why);

// The kind of problem when the kernel fails in its worker.
[[nodiscard]] const char* kernel_code(Failure failure);

[[nodiscard]] Runnable library_runnable(const BuiltCallable& built, const std::string& label, int threads = 1);
// Hashes the file now: what is loaded later must be the same.
[[nodiscard]] Result<Runnable> python_runnable(const Project& project, const Callable& callable,
                                               const std::string& role, const std::string& label, int threads = 1);

}  // namespace flashmoe::workflow
