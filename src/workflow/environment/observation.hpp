// What one examination of the machine returns: findings with what they are needed for, and the same as facts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/verdict/environment_facts.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

enum class Need { nothing, cxx, library, cuda_toolkit, gpu, python, numpy, torch, disk };

// What is missing when that need is not met.
[[nodiscard]] const char* code_of(Need need);

struct Observation {
  Finding finding;
  Need need = Need::nothing;  // who cannot work while this is not ok
};

struct Observations {
  std::vector<Observation> all;
  EnvironmentFacts facts{};

  void ok(const std::string& group, const std::string& what, Need need = Need::nothing) {
    all.push_back({{.severity = Severity::ok, .group = group, .what = what}, need});
  }
  void warn(const std::string& group, const std::string& what, const std::string& fix, Need need = Need::nothing) {
    all.push_back({{Severity::warning, group, what, {}, fix, code_of(need)}, need});
  }
  void fail(const std::string& group, const std::string& what, const std::string& fix, Need need = Need::nothing) {
    all.push_back({{Severity::error, group, what, {}, fix, code_of(need)}, need});
  }
  void add(Observations other);
};

// Each looks at one thing and changes nothing.
[[nodiscard]] Observations examine_cpu();
[[nodiscard]] Observations examine_compilers();
[[nodiscard]] Observations examine_cuda();  // toolkit, driver, GPUs
[[nodiscard]] Observations examine_nvdisasm(double python_limit_seconds);
[[nodiscard]] Observations examine_counters();     // may hardware counters be read?
[[nodiscard]] Observations examine_confinement();  // what keeps a kernel off the rest of the machine
[[nodiscard]] Observations examine_clocks();       // what disturbs a measurement
[[nodiscard]] Observations examine_disk(const std::string& directory);

// The GPU kernels that come with a libflashmoe.so, as it tells them.
struct LibraryImages {
  std::vector<int> architectures{};  // 89 for sm_89, 0 for PTX
  std::string why_none{};            // empty: there are some, or it does not say
};
[[nodiscard]] Result<LibraryImages> library_images(const std::string& library);
// Their names, and findings on whether they serve the GPUs that are here.
[[nodiscard]] std::optional<std::vector<std::string>> judge_library_images(const Result<LibraryImages>& images,
                                                                           const std::vector<int>& gpus,
                                                                           Observations& seen);

// Whether the driver (12040: for CUDA 12.4) is new enough for the library, and for what the toolkit ("13.0"; empty:
// there is none) makes.
void judge_driver_version(int version, const std::string& toolkit, Observations& seen);

struct PythonWish {
  double limit_seconds = 4;
  bool torch = true;
  bool extension = true;
};
[[nodiscard]] Observations examine_python(const PythonWish& wish);

// CUDADENT_PYTHON, else python3 on PATH; empty when there is none.
[[nodiscard]] std::string find_python();

// A shared library that something loaded from `directory` (torch's package) needs and nobody has.
struct MissingLibrary {
  std::string soname;     // "libcudart.so.13"
  std::string wanted_by;  // "libtorch_cuda.so"
};
[[nodiscard]] std::vector<MissingLibrary> missing_libraries(const std::string& directory);
// The command that brings it: "pip install nvidia-cublas"; empty when unknown.
[[nodiscard]] std::string package_of_library(const std::string& soname);

}  // namespace flashmoe::workflow
