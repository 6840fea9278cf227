// The corpus as CUDA kernels, on the virtual GPU: those that pretend must be refused by the check that is named, honest
// ones must pass. All of them are compiled from one source, by one call of nvcc.
//
// What needs no kernel here, because it cannot happen: a kernel puts nothing into another stream and leaves nothing
// running (launches are made by our own entry, one after the other, and the virtual GPU answers launches from device
// code with CUDA_ERROR_NOT_SUPPORTED; a call ends with cuCtxSynchronize); a result that is kept by the hash of its
// inputs is never asked for again (every call has new inputs); reading past the parameters is refused by ptxas.
#pragma once

#include <string>
#include <vector>

#include "support/progress.hpp"
#include "workflow/journal/selftest_record.hpp"

namespace flashmoe::workflow {

struct CudaCase {
  std::string name;
  std::string what;           // what it does, as one clause
  std::string expected_gate;  // "correctness"; "waves": right, but its idle CTAs are told; empty: honest, must pass
  std::string refused_by;     // words that its findings must have; of an honest one, that they may have
  std::string task = "map";   // what it is asked to compute: cuda_tasks()
  std::vector<std::string> launches{};    // kernels of a call; empty: the one of its name
  std::string grid = "ceil_div(n, 256)";  // of that kernel; others of the call are one CTA
  int helper_threads = 1;                 // of these
};

[[nodiscard]] const std::vector<CudaCase>& all_cuda_cases();
// A few of every kind, for a short self-test.
[[nodiscard]] std::vector<std::string> cuda_cases_in_short();

struct CudaTask {
  std::string name;
  std::string outputs;    // of cudadent.toml
  std::string reference;  // body of `static void reference(const float* x, float* y, int64_t n)`
};

[[nodiscard]] const std::vector<CudaTask>& cuda_tasks();
// One file with all kernels.
[[nodiscard]] std::string cuda_source();

// All of them, or those named. Without nvcc none of them runs, and each says so.
[[nodiscard]] std::vector<CheatOutcome> run_cuda_cases(Progress& progress, const std::vector<std::string>& only = {});

}  // namespace flashmoe::workflow
