// Names and texts of errors.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <string>

#include "vgpu/driver/cuda_abi.hpp"
#include "vgpu/driver/error_words.hpp"
#include "vgpu/driver/implementations.hpp"

namespace flashmoe::vgpu::driver {
namespace {

struct Text {
  const char* name;
  std::string words;
};

// CUDA's own, else CUDA_ERROR_PROFILER_DISABLED -> "profiler disabled".
std::string words_of(int error, std::string name) {
  if (const char* const words = error_words(error)) return words;
  name.erase(0, std::strlen("CUDA_ERROR_"));
  for (char& one : name) one = one == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(one)));
  return name;
}

const Text* find(CUresult result) {
  static const auto& all = *new std::map<int, Text>{
#define VGPU_RESULT(name, value) {value, {#name, words_of(value, #name)}},
#include "vgpu/driver/results.def"
#undef VGPU_RESULT
  };
  const auto found = all.find(result);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace
}  // namespace flashmoe::vgpu::driver

using namespace flashmoe::vgpu::driver;

VGPU_EXPORT CUresult cuGetErrorName(CUresult result, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Text* const text = find(result);
  *name = text == nullptr ? nullptr : text->name;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

VGPU_EXPORT CUresult cuGetErrorString(CUresult result, const char** words) {
  if (words == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Text* const text = find(result);
  *words = text == nullptr ? nullptr : text->words.c_str();
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
