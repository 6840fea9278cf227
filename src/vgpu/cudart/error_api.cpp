// Names and texts of errors, and the thread's last one.
#include <cctype>
#include <map>
#include <string>

#include "vgpu/cudart/calls.hpp"
#include "vgpu/driver/error_words.hpp"

namespace flashmoe::vgpu::cudart {
namespace {

struct Text {
  const char* name;
  std::string words;
};

// CUDA's own, else cudaErrorProfilerDisabled -> "profiler disabled".
std::string words_of(int error, std::string name) {
  if (const char* const words = driver::error_words(error)) return words;
  name.erase(0, std::string("cudaError").size());
  std::string text;
  for (const char letter : name) {
    const bool begins = std::isupper(static_cast<unsigned char>(letter)) != 0;
    if (begins && !text.empty()) text += ' ';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return text;
}

const Text* find(cudaError_t error) {
  static const auto& all = *new std::map<cudaError_t, Text>{
#define VGPU_RUNTIME_ERROR(name, value) {value, {#name, words_of(value, #name)}},
#include "vgpu/cudart/errors.def"
#undef VGPU_RUNTIME_ERROR
  };
  const auto found = all.find(error);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace
}  // namespace flashmoe::vgpu::cudart

using namespace flashmoe::vgpu::cudart;

VGPU_RUNTIME const char* cudaGetErrorName(cudaError_t error) {
  const Text* const text = find(error);
  return text == nullptr ? "unrecognized error code" : text->name;
}
VGPU_RUNTIME const char* cudaGetErrorString(cudaError_t error) {
  const Text* const text = find(error);
  return text == nullptr ? "unrecognized error code" : text->words.c_str();
}
VGPU_RUNTIME cudaError_t cudaGetLastError() {
  return taken_error();
}
VGPU_RUNTIME cudaError_t cudaPeekAtLastError() {
  return last_error();
}
