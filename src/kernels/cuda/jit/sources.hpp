// The device code as text inside the library, for NVRTC.
#pragma once

#include <span>
#include <string>

namespace flashmoe::cuda {

struct Source {
  const char* name;  // as other sources include it: "kernels/cuda/axes.hpp"
  const char* text;  // ends in a zero byte
};

inline constexpr const char* main_source_name = "kernels/cuda/instance.cu";
inline constexpr const char* merge_source_name = "kernels/cuda/merge.cu";

// Both of them and every header that they can reach.
[[nodiscard]] std::span<const Source> device_sources();
// Names and texts of all of them, to make a hash of. Zero bytes keep the parts apart: none of them holds one.
[[nodiscard]] std::string all_device_code();

}  // namespace flashmoe::cuda
