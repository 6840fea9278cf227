#include "workflow/environment/nvdisasm.hpp"

#include <cstdlib>
#include <filesystem>

#include "support/process.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where pip puts it. A child process, asked only where nothing else was found.
std::string packaged_for_python(std::chrono::milliseconds limit) {
  constexpr const char* program = R"(
import glob, os, site, sys
for path in [*sys.path, site.getusersitepackages()]:
    for found in glob.glob(os.path.join(path, 'nvidia', 'cu*', 'bin', 'nvdisasm')):
        print(found)
)";
  const auto ran = run_process({.argv = {python_program(), "-I", "-c", program}, .limit = limit});
  if (!ran || !ran->ok() || ran->out.empty()) return "";
  return find_program({ran->out.substr(0, ran->out.find('\n'))});
}

Diagnostic missing(const std::string& message) {
  return {.message = message,
          .fix = python_program() + " -m pip install nvidia-cuda-nvdisasm, or set NVDISASM to the path of one",
          .code = codes::environment_no_nvdisasm};
}

}  // namespace

Result<std::string> find_nvdisasm(std::chrono::milliseconds limit) {
  if (const std::string asked = variable("NVDISASM"); !asked.empty()) {
    const std::string found = find_program({asked});
    if (found.empty()) return missing("NVDISASM is \"" + asked + "\", but there is no such program");
    return found;
  }
  std::vector<std::string> names{"nvdisasm"};
  if (const auto toolkit = find_cuda_toolkit())
    names.push_back((std::filesystem::path(toolkit->nvcc).parent_path() / "nvdisasm").string());
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (!variable(home).empty()) names.push_back(variable(home) + "/bin/nvdisasm");
  std::string found = find_program(names);
  if (found.empty()) found = packaged_for_python(limit);
  if (found.empty())
    return missing(
        "no nvdisasm, and a time is predicted from the SASS that it prints: it is neither on PATH, beside "
        "nvcc, in CUDA_HOME/bin, nor among the packages of " +
        python_program());
  return found;
}

}  // namespace flashmoe::workflow
