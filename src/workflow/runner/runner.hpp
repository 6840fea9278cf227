// Running somebody's kernel without trusting it. The controller (this process) makes inputs, owns the expected values
// and takes the time; the kernel runs in a worker process and sees only its tensors, in shared memory. The same
// interface serves a C++ shared library, a Python callable and a CUDA kernel on a virtual or a real GPU.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct Image {
  std::string path{};
  std::string hash{};  // SHA-256, checked again by the worker when it loads it
};

// An argument of a launch: a tensor of the call, or a number of one of the types i32, i64, u8, f32, f64.
struct LaunchValue {
  std::optional<std::size_t> tensor{};  // its index
  std::string type{};
  double real = 0;           // f32, f64
  std::int64_t integer = 0;  // the others
};

// One launch of a call, evaluated for a workload.
struct Launch {
  std::size_t image = 0;  // index
  std::string kernel{};   // symbol
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::int64_t shared_bytes = 0;
  std::vector<LaunchValue> args{};
  std::uint64_t instruction_budget = 0;  // warp instructions on a virtual GPU; 0: as its driver has it
};

// What the arguments of kernels are in the project: by symbol, a tensor's name or nothing.
using ArgumentNames = std::map<std::string, std::vector<std::string>>;

// What to run: a built shared library with an entry, a Python callable, or CUDA kernels.
struct Runnable {
  std::string label{};  // "kernel", "reference", "torch SDPA"
  CallableKind kind = CallableKind::cpp;
  std::string library{};  // absolute path of the built .so, or of the .py file
  std::string entry{};
  std::string content_hash{};  // SHA-256 of that file when it was built; checked again by the worker when it loads it
  int threads = 1;
  // CallableKind::python: whether its tensors are torch's, and the tunables of the kernel, which come as parameters.
  bool torch_tensors = false;
  Values point{};
  // CallableKind::cuda: the driver's library, the images with their hashes, and the launches of one call.
  std::string driver{};
  int ordinal = 0;
  std::vector<Image> images{};
  std::function<Result<std::vector<Launch>>(const Values&)> launches{};
  ArgumentNames argument_names{};
  std::vector<std::string> environment{};  // "NAME=value" for the worker
  std::vector<std::string> readable{};     // directories of libraries it is linked with
  double limit_factor = 1;                 // on every time limit: a virtual GPU is slower than a device
  // The card's own clock times it: CUDA kernels, or Python whose torch tensors lie on `card` ("cuda:0").
  bool by_events = false;
  std::string card{};
  std::vector<std::string> under{};  // a tool that runs the worker, with its flags; none: it runs by itself
};

enum class Failure { none, crashed, out_of_memory, hung, refused, could_not_start };

[[nodiscard]] const char* name_of(Failure failure);

struct RunError {
  Failure failure = Failure::none;
  Diagnostic diagnostic;
};

}  // namespace flashmoe::workflow
