// The seam: whoever needs a GPU gets a Driver, and calls NVIDIA's and the virtual one alike. Only who labels figures
// asks which of them it is.
#pragma once

#include <memory>
#include <string>

#include "runtime/cuda_abi.hpp"
#include "support/result.hpp"

namespace flashmoe::runtime {

class Driver {
 public:
  // Loads a driver library and initialises it. `library` is a path or a name the loader finds ("libcuda.so.1").
  [[nodiscard]] static Result<std::shared_ptr<const Driver>> open(const std::string& library);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const cuda::Functions& call() const { return functions_; }
  // Not asked for when the driver is opened: who only computes can do without.
  [[nodiscard]] Result<const cuda::MeasuringFunctions*> measuring() const;
  [[nodiscard]] const std::string& library() const { return library_; }
  [[nodiscard]] int version() const { return version_; }  // 13000 is CUDA 13.0
  [[nodiscard]] bool is_virtual() const { return is_virtual_; }

  // Success, or what the driver says, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", and what helps.
  [[nodiscard]] Result<Done> check(cuda::Code code, const char* what) const;

 private:
  Driver() = default;
  void* handle_ = nullptr;
  std::string library_{};
  int version_ = 0;
  bool is_virtual_ = false;
  cuda::Functions functions_{};
  cuda::MeasuringFunctions measuring_{};
  std::string missing_measuring_{};  // the first function of them that the library does not export
};

// The library behind a device selector. FLASHMOE_DRIVER (a path) wins; a virtual GPU is ours, found beside this program
// or in the build tree; a real one is the system's.
[[nodiscard]] Result<std::string> virtual_driver_library();
[[nodiscard]] std::string system_driver_library();

// Whether the library loads and says that it is a virtual GPU. Nothing is initialised: no cuInit, no context.
[[nodiscard]] bool is_virtual_driver(const std::string& library);

}  // namespace flashmoe::runtime
