#include "vgpu/cudart/registered.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "images/fatbin.hpp"
#include "vgpu/cudart/calls.hpp"

namespace flashmoe::vgpu::cudart {
namespace {

struct Image {
  const void* data = nullptr;
  const void* const* parts = nullptr;  // the fatbins that nvcc linked it from, up to a null pointer; none: it is whole
  CUlibrary library = nullptr;
};
struct Kernel {
  Image* image = nullptr;
  std::string name{};
  CUkernel handle = nullptr;
};
struct Global {
  Image* image = nullptr;
  std::string name{};
  void** managed = nullptr;  // where the host reads a managed variable's address
};

// Registration runs before main and lasts until after it: never destroyed.
struct Registry {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<Image>> images;
  std::map<const void*, Kernel> kernels;
  std::map<const void*, Global> globals;
  std::set<const void*> handed_out;
};
Registry& registry() {
  static auto& all = *new Registry;
  return all;
}

// An image is loaded when it is first used. That may be while a stream is captured, and must not spoil the capture.
class DespiteCapture {
 public:
  DespiteCapture() { static_cast<void>(cuThreadExchangeStreamCaptureMode(&mode_)); }
  DespiteCapture(const DespiteCapture&) = delete;
  DespiteCapture& operator=(const DespiteCapture&) = delete;
  ~DespiteCapture() { static_cast<void>(cuThreadExchangeStreamCaptureMode(&mode_)); }

 private:
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; then the thread's own
};

CUresult load_whole(const void* data, CUlibrary* library) {
  return cuLibraryLoadData(library, data, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

// What nvcc linked itself (-rdc=true) is SASS. Its parts still have their PTX, and are linked once more.
CUresult load_parts(const void* const* parts, CUlibrary* library) {
  CUlinkState link = nullptr;
  if (const CUresult result = cuLinkCreate_v2(0, nullptr, nullptr, &link); result != CUDA_SUCCESS) return result;
  CUresult result = CUDA_SUCCESS;
  for (; result == CUDA_SUCCESS && *parts != nullptr; ++parts) {
    const auto bytes = fatbin_length({static_cast<const std::byte*>(*parts), fatbin_header_bytes});
    result = bytes ? cuLinkAddData_v2(link, CU_JIT_INPUT_FATBINARY, const_cast<void*>(*parts), *bytes,
                                      "relocatable device code", 0, nullptr, nullptr)
                   : CUDA_ERROR_INVALID_IMAGE;
  }
  void* image = nullptr;
  std::size_t bytes = 0;
  if (result == CUDA_SUCCESS) result = cuLinkComplete(link, &image, &bytes);
  if (result == CUDA_SUCCESS) result = load_whole(image, library);
  static_cast<void>(cuLinkDestroy(link));
  return result;
}

// Managed variables are read by the host through a pointer, which gets its value with the image.
cudaError_t load(Image& image) {
  if (image.library != nullptr) return cudaSuccess;
  if (const cudaError_t error = make_ready(); error != cudaSuccess) return error;
  const DespiteCapture relaxed;
  const CUresult result =
      image.parts != nullptr ? load_parts(image.parts, &image.library) : load_whole(image.data, &image.library);
  if (result != CUDA_SUCCESS) return result;
  for (const auto& [key, global] : registry().globals) {
    if (global.image != &image || global.managed == nullptr) continue;
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    if (const CUresult found = cuLibraryGetManaged(&address, &bytes, image.library, global.name.c_str());
        found != CUDA_SUCCESS)
      return found;
    *global.managed = reinterpret_cast<void*>(address);
  }
  return cudaSuccess;
}

// nvcc's wrapper of a fatbin (fatbinary_section.h).
struct Wrapper {
  int magic, version;
  const void* data;
  const void* file_or_parts;  // by the version: a file's name, or an array of fatbins
};
constexpr int version_with_parts = 2;

Image* as_image(void** handle) {
  return reinterpret_cast<Image*>(handle);
}

}  // namespace

cudaError_t find_kernel(const void* key, CUkernel& kernel) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().kernels.find(key);
  if (found == registry().kernels.end()) {
    if (!registry().handed_out.contains(key)) return cudaErrorInvalidDeviceFunction;
    kernel = static_cast<CUkernel>(const_cast<void*>(key));
    return cudaSuccess;
  }
  Kernel& known = found->second;
  if (known.handle == nullptr) {
    if (const cudaError_t error = load(*known.image); error != cudaSuccess) return error;
    const CUresult result = cuLibraryGetKernel(&known.handle, known.image->library, known.name.c_str());
    if (result != CUDA_SUCCESS) return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : result;
    registry().handed_out.insert(known.handle);
  }
  kernel = known.handle;
  return cudaSuccess;
}

void hand_out(CUkernel kernel) {
  const std::lock_guard lock(registry().mutex);
  registry().handed_out.insert(kernel);
}

cudaError_t find_function(const void* key, CUfunction& function) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = find_kernel(key, kernel); error != cudaSuccess) return error;
  return cuKernelGetFunction(&function, kernel);
}

cudaError_t find_variable(const void* key, Variable& variable) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().globals.find(key);
  if (found == registry().globals.end()) return cudaErrorInvalidSymbol;
  const Global& global = found->second;
  if (const cudaError_t error = load(*global.image); error != cudaSuccess) return error;
  const auto get = global.managed != nullptr ? cuLibraryGetManaged : cuLibraryGetGlobal;
  const CUresult result = get(&variable.address, &variable.bytes, global.image->library, global.name.c_str());
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : static_cast<cudaError_t>(result);
}

}  // namespace flashmoe::vgpu::cudart

using namespace flashmoe::vgpu::cudart;

// NOLINTBEGIN(bugprone-reserved-identifier): names that nvcc's host code calls
VGPU_RUNTIME void** __cudaRegisterFatBinary(const void* wrapper) {
  const std::lock_guard lock(registry().mutex);
  auto& images = registry().images;
  const auto* const given = static_cast<const Wrapper*>(wrapper);
  const bool has_parts = given->version == version_with_parts && given->file_or_parts != nullptr;
  images.push_back(std::make_unique<Image>(
      Image{given->data, has_parts ? static_cast<const void* const*>(given->file_or_parts) : nullptr}));
  return reinterpret_cast<void**>(images.back().get());
}
VGPU_RUNTIME void __cudaRegisterFatBinaryEnd(void** /*image*/) {}
// While the process ends the driver may be gone already; it keeps what a library that is closed early had loaded.
VGPU_RUNTIME void __cudaUnregisterFatBinary(void** handle) {
  const std::lock_guard lock(registry().mutex);
  const Image* const image = as_image(handle);
  std::erase_if(registry().kernels, [&](const auto& one) { return one.second.image == image; });
  std::erase_if(registry().globals, [&](const auto& one) { return one.second.image == image; });
}
// Called before the host first reads a managed variable.
VGPU_RUNTIME char __cudaInitModule(void** image) {
  const std::lock_guard lock(registry().mutex);
  return kept(load(*as_image(image))) == cudaSuccess ? 1 : 0;
}
VGPU_RUNTIME void __cudaRegisterFunction(void** image, const char* key, char* /*device function*/, const char* name,
                                         int /*thread limit*/, uint3* /*tid*/, uint3* /*bid*/, dim3* /*block*/,
                                         dim3* /*grid*/, int* /*warp size*/) {
  const std::lock_guard lock(registry().mutex);
  registry().kernels[key] = {as_image(image), name};
}
VGPU_RUNTIME void __cudaRegisterVar(void** image, char* key, char* /*device address*/, const char* name,
                                    int /*external*/, std::size_t /*bytes*/, int /*constant*/, int /*global*/) {
  const std::lock_guard lock(registry().mutex);
  registry().globals[key] = {as_image(image), name};
}
VGPU_RUNTIME void __cudaRegisterManagedVar(void** image, void** key, char* /*device address*/, const char* name,
                                           int /*external*/, std::size_t /*bytes*/, int /*constant*/, int /*global*/) {
  const std::lock_guard lock(registry().mutex);
  registry().globals[key] = {as_image(image), name, key};
}
VGPU_RUNTIME cudaError_t __cudaGetKernel(CUkernel* kernel, const void* key) {
  return answered([&] { return find_kernel(key, *kernel); });
}
// NOLINTEND(bugprone-reserved-identifier)
VGPU_RUNTIME cudaError_t cudaGetKernel(CUkernel* kernel, const void* key) {
  return answered([&] { return find_kernel(key, *kernel); });
}
VGPU_RUNTIME cudaError_t cudaGetFuncBySymbol(CUfunction* function, const void* key) {
  return answered([&] { return find_function(key, *function); });
}
VGPU_RUNTIME cudaError_t cudaGetSymbolAddress(void** address, const void* key) {
  return answered([&] {
    Variable variable;
    const cudaError_t error = find_variable(key, variable);
    if (error == cudaSuccess) *address = reinterpret_cast<void*>(variable.address);
    return error;
  });
}
VGPU_RUNTIME cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* key) {
  return answered([&] {
    Variable variable;
    const cudaError_t error = find_variable(key, variable);
    if (error == cudaSuccess) *bytes = variable.bytes;
    return error;
  });
}
