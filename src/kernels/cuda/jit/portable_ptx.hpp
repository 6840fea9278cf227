// PTX that any driver from CUDA 12.0 on compiles. Compilers write the newest version they know at its head, and hints
// that only it has, whether or not the instructions need them.
#pragma once

#include <string>
#include <string_view>

namespace flashmoe::cuda {

inline constexpr const char* portable_ptx_version = "8.0";  // PTX ISA of CUDA 12.0

[[nodiscard]] std::string portable_ptx(std::string_view text);

}  // namespace flashmoe::cuda
