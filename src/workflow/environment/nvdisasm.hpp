// NVIDIA's disassembler, which prints the SASS that times are predicted from.
#pragma once

#include <chrono>
#include <string>

#include "support/result.hpp"

namespace flashmoe::workflow {

// NVDISASM, else nvdisasm on PATH, beside nvcc (which CUDACXX may name), in CUDA_HOME/bin and CUDA_PATH/bin, or in the
// packages of the Python that runs kernels (CUDADENT_PYTHON): pip install nvidia-cuda-nvdisasm.
[[nodiscard]] Result<std::string> find_nvdisasm(std::chrono::milliseconds limit_of_python = std::chrono::seconds(20));

}  // namespace flashmoe::workflow
