// Registers and spills that only ptxas knows, asked of the machine's own when the image has no cubin; and the cubin
// itself, with the lines of the PTX, for whoever predicts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "images/cubin.hpp"

namespace flashmoe::vgpu::driver {

// VGPU_PTXAS names it ("off": none), else CUDA_HOME/bin, PATH and /usr/local/cuda/bin are looked at. Nothing: there is
// none, or it is too old for this PTX; then registers are unknown, never guessed.
[[nodiscard]] std::optional<Cubin> compile_with_ptxas(const std::string& ptx, std::string_view architecture);

// The same into a file. False: not there.
[[nodiscard]] bool compile_with_lines(const std::string& ptx, std::string_view architecture, const std::string& cubin);

}  // namespace flashmoe::vgpu::driver
