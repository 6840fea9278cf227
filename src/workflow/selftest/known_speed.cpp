#include "workflow/selftest/known_speed.hpp"

#include <fmt/format.h>

#include <fstream>

#include "workflow/compare/versions.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// Work that neither memory nor the compiler can make shorter: every step needs the one before. STEPS sets how long it
// takes; the steps beyond the first thousand are for the clock only, so that every build gives the same result.
constexpr const char* working_source = R"(#include <cudadent/kernel.h>
extern "C" int work(const cudadent_call* call) {
  const auto* x = static_cast<const float*>(cudadent_find_tensor(call, "x")->data);
  auto* y = static_cast<float*>(cudadent_find_tensor(call, "y")->data);
  for (int i = 0; i < 8; ++i) {
    float a = x[i];
    for (int step = 0; step < 1000; ++step) a = a * 0.999f + 0.001f;
    y[i] = a;
    float rest = a;
    for (int step = 1000; step < STEPS; ++step) rest = rest * 0.999f + 0.001f;
    volatile float sink = rest;
    (void)sink;
  }
  return 0;
}
)";

constexpr const char* working_reference = R"(#include <cudadent/kernel.h>
extern "C" int reference(const cudadent_call* call) {
  const auto* x = static_cast<const float*>(cudadent_find_tensor(call, "x")->data);
  auto* y = static_cast<float*>(cudadent_find_tensor(call, "y")->data);
  for (int i = 0; i < 8; ++i) {
    float a = x[i];
    for (int step = 0; step < 1000; ++step) a = a * 0.999f + 0.001f;
    y[i] = a;
  }
  return 0;
}
)";

std::string configuration(int steps) {
  return fmt::format(R"(name = "selftest"
kernel = "kernel.cpp:work"
reference = "reference.cpp:reference"
baseline = "reference.cpp:reference"

[params]
n = {{ default = 8, range = [8, 8] }}

[inputs]
x = "f32[n]"

[outputs]
y = "f32[n]"

[workloads]
only = {{ n = 8 }}

[cpu]
flags = ["-O2", "-DSTEPS={}"]
)",
                     steps);
}

}  // namespace

Result<KnownSpeed> build_with_steps(const fs::path& root, int steps) {
  const fs::path directory = root / std::to_string(steps);
  std::error_code error;
  fs::create_directories(directory, error);
  std::ofstream(directory / "kernel.cpp") << working_source;
  std::ofstream(directory / "reference.cpp") << working_reference;
  std::ofstream(directory / "cudadent.toml") << configuration(steps);
  auto project = load_project(directory.string());
  if (!project) return project.error();
  KnownSpeed built;
  built.project = std::move(*project);
  BuildOptions options;
  options.output_root = (root / "build").string();
  auto kernel = make_runnable(built.project, built.project.kernel, "kernel", fmt::format("{} steps", steps), options);
  if (!kernel) return kernel.error();
  auto reference = make_runnable(built.project, built.project.reference, "reference", "reference", options);
  if (!reference) return reference.error();
  built.kernel = std::move(*kernel);
  built.reference = std::move(*reference);
  return built;
}

}  // namespace flashmoe::workflow
