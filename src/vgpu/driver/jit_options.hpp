// The options of cuModuleLoadDataEx, cuLinkCreate and cuLibraryLoadData that mean something here: the two logs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "vgpu/driver/cuda_abi.hpp"

namespace flashmoe::vgpu::driver {

class JitOptions {
 public:
  JitOptions(unsigned count, const int* options, void** values) {
    if (options == nullptr || values == nullptr) return;
    for (unsigned i = 0; i < count; ++i) {
      // Numbers stand in the pointers themselves.
      const auto number = reinterpret_cast<std::uintptr_t>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) error_log_ = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        error_bytes_ = static_cast<unsigned>(number), error_size_ = &values[i];
      if (options[i] == CU_JIT_INFO_LOG_BUFFER) info_log_ = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
        info_bytes_ = static_cast<unsigned>(number), info_size_ = &values[i];
    }
  }
  [[nodiscard]] bool takes_errors() const { return error_log_ != nullptr && error_bytes_ > 1; }
  // Both logs are written, empty when there is nothing to say; the sizes become what was written.
  void write(std::string_view error) const {
    put(error_log_, error_bytes_, error_size_, error);
    put(info_log_, info_bytes_, info_size_, {});
  }

 private:
  static void put(char* log, unsigned bytes, void** size, std::string_view text) {
    if (log == nullptr || bytes == 0) return;
    const auto written = std::min<std::size_t>(text.size(), bytes - 1);
    std::copy_n(text.begin(), written, log);
    log[written] = '\0';
    if (size != nullptr) *size = reinterpret_cast<void*>(written);
  }
  char* error_log_ = nullptr;
  char* info_log_ = nullptr;
  unsigned error_bytes_ = 0, info_bytes_ = 0;
  void** error_size_ = nullptr;
  void** info_size_ = nullptr;
};

}  // namespace flashmoe::vgpu::driver
