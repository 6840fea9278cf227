// The signatures are those of cuda_runtime_api.h, crt/host_runtime.h and crt/device_functions.h of CUDA 13; error
// codes, device attributes and the attribute of functions have the driver's numbers.
#include "cudart_stand_in.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace flashmoe::peers {
namespace {

struct Image {
  const void* bytes = nullptr;
  runtime::cuda::ModuleHandle module = nullptr;
};

struct Kernel {
  Image* image = nullptr;
  std::string name{};
  runtime::cuda::FunctionHandle function = nullptr;
};

constexpr int kInvalidDeviceFunction = 98;

struct State {
  std::shared_ptr<runtime::Context> context{};
  std::vector<std::unique_ptr<Image>> images{};
  std::map<const void*, Kernel> kernels{};  // by the address of the host's stub
  std::vector<Launch> launches{};
  std::string failure{};
};

State& state() {
  static State one;
  return one;
}

int failed(int code, const std::string& message) {
  if (state().failure.empty()) state().failure = message;
  return code;
}

int checked(int code, const char* what) {
  if (const auto result = state().context->driver().check(code, what); !result)
    return failed(code, result.error().message);
  return code;
}

const runtime::cuda::Functions& call() {
  return state().context->driver().call();
}

// The kernel behind a stub, its image loaded on first use; null after a failure.
Kernel* find(const void* stub) {
  const auto found = state().kernels.find(stub);
  if (found == state().kernels.end()) {
    failed(kInvalidDeviceFunction, "a kernel is launched that was never registered");
    return nullptr;
  }
  Kernel& kernel = found->second;
  if (kernel.function != nullptr) return &kernel;
  Image& image = *kernel.image;
  if (image.module == nullptr && checked(call().module_load(&image.module, image.bytes), "cuModuleLoadData") != 0)
    return nullptr;
  const int code = call().module_function(&kernel.function, image.module, kernel.name.c_str());
  return checked(code, ("cuModuleGetFunction " + kernel.name).c_str()) == 0 ? &kernel : nullptr;
}

struct Dim3 {
  unsigned x, y, z;
};

struct CallConfiguration {
  Dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
};
std::vector<CallConfiguration>& configurations() {
  static std::vector<CallConfiguration> pushed;
  return pushed;
}

int launch(const void* stub, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes, void* stream) {
  const Kernel* kernel = find(stub);
  if (kernel == nullptr) return kInvalidDeviceFunction;
  state().launches.push_back({kernel->name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes});
  const int code = call().launch(kernel->function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                 static_cast<unsigned>(shared_bytes), static_cast<runtime::cuda::StreamHandle>(stream),
                                 arguments, nullptr);
  return checked(code, ("cuLaunchKernel " + kernel->name).c_str());
}

}  // namespace

void stand_in_for_cudart(std::shared_ptr<runtime::Context> context) {
  if (!context) {
    for (auto& [stub, kernel] : state().kernels) kernel.function = nullptr;
    for (auto& image : state().images)
      if (image->module != nullptr) call().module_unload(std::exchange(image->module, nullptr));
  }
  state().context = std::move(context);
}

std::vector<Launch> take_launches() {
  return std::exchange(state().launches, {});
}

std::string first_failure() {
  return state().failure;
}

}  // namespace flashmoe::peers

// Exported from the program, found by the plug-in when it is loaded.
using namespace flashmoe::peers;
#define PEER_EXPORT extern "C" __attribute__((visibility("default")))

PEER_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  struct FatbinWrapper {  // fatbinary_section.h
    int magic, version;
    const void* data;
    void* file_name;
  };
  state().images.push_back(std::make_unique<Image>(Image{.bytes = static_cast<FatbinWrapper*>(wrapper)->data}));
  return reinterpret_cast<void**>(state().images.back().get());
}
PEER_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
PEER_EXPORT void __cudaUnregisterFatBinary(void**) {}
PEER_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
PEER_EXPORT void __cudaRegisterFunction(void** image, const char* stub, char*, const char* name, int, void*, void*,
                                        void*, void*, int*) {
  state().kernels[stub] = Kernel{.image = reinterpret_cast<Image*>(image), .name = name};
}

// A cudaKernel_t is opaque to the code that holds it: the stub's address serves.
PEER_EXPORT int __cudaGetKernel(const void** kernel, const void* stub) {
  *kernel = stub;
  return 0;
}
PEER_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes, void* stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}
PEER_EXPORT int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes, void* stream) {
  const CallConfiguration configuration = configurations().back();
  configurations().pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<void**>(stream) = configuration.stream;
  return 0;
}
PEER_EXPORT int __cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                   std::size_t shared_bytes, void* stream) {
  return launch(kernel, grid, block, arguments, shared_bytes, stream);
}
PEER_EXPORT int cudaLaunchKernel(const void* stub, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes,
                                 void* stream) {
  return launch(stub, grid, block, arguments, shared_bytes, stream);
}

PEER_EXPORT int cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}
PEER_EXPORT int cudaDeviceGetAttribute(int* value, int attribute, int) {
  const auto got = state().context->attribute(static_cast<flashmoe::runtime::cuda::DeviceAttribute>(attribute));
  if (!got) return failed(1, got.error().message);
  *value = *got;
  return 0;
}
PEER_EXPORT int cudaFuncSetAttribute(const void* stub, int attribute, int value) {
  const Kernel* kernel = find(stub);
  if (kernel == nullptr) return kInvalidDeviceFunction;
  const auto driver_attribute = static_cast<flashmoe::runtime::cuda::FunctionAttribute>(attribute);
  return checked(call().function_set_attribute(kernel->function, driver_attribute, value), "cuFuncSetAttribute");
}
PEER_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int threads,
                                                                       std::size_t shared_bytes, unsigned) {
  const Kernel* kernel = find(stub);
  if (kernel == nullptr) return kInvalidDeviceFunction;
  return checked(call().occupancy(blocks, kernel->function, threads, shared_bytes),
                 "cuOccupancyMaxActiveBlocksPerMultiprocessor");
}
PEER_EXPORT int cudaGetLastError() {
  return first_failure().empty() ? 0 : 1;
}
PEER_EXPORT const char* cudaGetErrorString(int) {
  return state().failure.c_str();
}
