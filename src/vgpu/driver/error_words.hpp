// What CUDA says of an error, in both APIs.
#pragma once

namespace flashmoe::vgpu::driver {

// nullptr: no words of CUDA's are kept (error_words.def).
inline const char* error_words(int error) {
  switch (error) {
#define VGPU_ERROR_WORDS(value, words) \
  case value:                          \
    return words;
#include "vgpu/driver/error_words.def"
#undef VGPU_ERROR_WORDS
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::driver
