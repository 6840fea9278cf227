// The compilers of this machine: which one, which version, where our own headers and library are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// As std::filesystem::absolute, but a working directory that is gone is no exception.
[[nodiscard]] std::filesystem::path absolute_path(const std::filesystem::path& path);

// The first of the names that is an executable file on PATH (or is a path to one); empty when none is.
[[nodiscard]] std::string find_program(const std::vector<std::string>& names);

struct CxxCompiler {
  std::vector<std::string> argv;  // CXX may be "ccache g++"
  std::string version;            // the first line of --version
};

// CXX, else g++, c++, clang++.
[[nodiscard]] Result<CxxCompiler> find_cxx_compiler();

struct CudaToolkit {
  std::string nvcc{};     // absolute
  std::string version{};  // "13.0.88"
  int major = 0;
  int minor = 0;
};

// CUDACXX, else nvcc on PATH, CUDA_HOME/bin, CUDA_PATH/bin, /usr/local/cuda/bin.
[[nodiscard]] Result<CudaToolkit> find_cuda_toolkit();

// The shared library behind `libraries = ["flashmoe"]`: CUDADENT_FLASHMOE_DIR (an installation or a build tree), else
// what lies beside the running executable.
[[nodiscard]] Result<std::string> find_flashmoe_library();
// Directories with cudadent/kernel.h and flashmoe/flashmoe.h: beside the running executable, else the source tree.
[[nodiscard]] std::vector<std::string> own_include_directories();

}  // namespace flashmoe::workflow
