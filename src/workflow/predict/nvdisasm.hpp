// The SASS of a cubin, as NVIDIA's disassembler prints it.
#pragma once

#include <string>
#include <vector>

#include "predict/sass.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// With the lines of PTX, which a cubin has that was compiled with -lineinfo.
[[nodiscard]] Result<std::vector<predict::SassKernel>> sass_of(const std::string& nvdisasm, const std::string& cubin);

}  // namespace flashmoe::workflow
