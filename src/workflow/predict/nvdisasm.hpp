// The SASS of a cubin, as NVIDIA's disassembler prints it.
#pragma once

#include <string>
#include <vector>

#include "predict/sass.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// NVDISASM, else nvdisasm on PATH, beside nvcc (which CUDACXX may name), in CUDA_HOME/bin and CUDA_PATH/bin, or in the
// packages of the Python that runs kernels (CUDADENT_PYTHON): pip install nvidia-cuda-nvdisasm.
[[nodiscard]] Result<std::string> find_nvdisasm();

// With the lines of PTX, which a cubin has that was compiled with -lineinfo.
[[nodiscard]] Result<std::vector<predict::SassKernel>> sass_of(const std::string& nvdisasm, const std::string& cubin);

}  // namespace flashmoe::workflow
