#include "runtime/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace flashmoe::runtime {
namespace {

template <class Function>
bool find(void* handle, const char* name, Function& function, std::string& missing) {
  void* symbol = dlsym(handle, name);
  if (symbol == nullptr) {
    if (missing.empty()) missing = name;
    return false;
  }
  function = reinterpret_cast<Function>(symbol);
  return true;
}

// Names as the driver exports them: _v2 where the ABI changed once and the old entry stayed.
std::string find_all(void* handle, cuda::Functions& f) {
  std::string missing;
  find(handle, "cuInit", f.init, missing);
  find(handle, "cuDriverGetVersion", f.driver_version, missing);
  find(handle, "cuGetErrorName", f.error_name, missing);
  find(handle, "cuGetErrorString", f.error_text, missing);
  find(handle, "cuDeviceGetCount", f.device_count, missing);
  find(handle, "cuDeviceGet", f.device_get, missing);
  find(handle, "cuDeviceGetName", f.device_name, missing);
  find(handle, "cuDeviceGetAttribute", f.device_attribute, missing);
  find(handle, "cuDevicePrimaryCtxRetain", f.primary_retain, missing);
  find(handle, "cuDevicePrimaryCtxRelease_v2", f.primary_release, missing);
  find(handle, "cuCtxPushCurrent_v2", f.context_push, missing);
  find(handle, "cuCtxPopCurrent_v2", f.context_pop, missing);
  find(handle, "cuCtxGetCurrent", f.context_current, missing);
  find(handle, "cuCtxSynchronize", f.context_synchronize, missing);
  find(handle, "cuModuleLoadData", f.module_load, missing);
  find(handle, "cuModuleUnload", f.module_unload, missing);
  find(handle, "cuModuleGetFunction", f.module_function, missing);
  find(handle, "cuLibraryLoadData", f.library_load, missing);
  find(handle, "cuLibraryUnload", f.library_unload, missing);
  find(handle, "cuLibraryGetKernel", f.library_kernel, missing);
  find(handle, "cuKernelSetAttribute", f.kernel_set_attribute, missing);
  find(handle, "cuFuncGetAttribute", f.function_attribute, missing);
  find(handle, "cuFuncSetAttribute", f.function_set_attribute, missing);
  find(handle, "cuOccupancyMaxActiveBlocksPerMultiprocessor", f.occupancy, missing);
  find(handle, "cuMemAlloc_v2", f.allocate, missing);
  find(handle, "cuMemFree_v2", f.free, missing);
  find(handle, "cuMemcpyHtoD_v2", f.copy_to_device, missing);
  find(handle, "cuMemcpyDtoH_v2", f.copy_to_host, missing);
  find(handle, "cuMemsetD8_v2", f.fill, missing);
  find(handle, "cuMemsetD32Async", f.fill_words_async, missing);
  find(handle, "cuLaunchKernel", f.launch, missing);
  find(handle, "cuStreamCreate", f.stream_create, missing);
  find(handle, "cuStreamDestroy_v2", f.stream_destroy, missing);
  find(handle, "cuStreamSynchronize", f.stream_synchronize, missing);
  return missing;
}

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  std::shared_ptr<Driver> driver(new Driver);
  driver->library_ = library;
  driver->handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver->handle_ == nullptr) {
    const char* why = dlerror();
    return Diagnostic{
        .message = std::string("the CUDA driver does not load: ") + (why ? why : library),
        .fix = "install the NVIDIA driver on a machine with a GPU, or take the virtual one: --device virtual:l4"};
  }
  if (const std::string missing = find_all(driver->handle_, driver->functions_); !missing.empty()) {
    return Diagnostic{.message = library + " is no CUDA driver we can use: it does not export " + missing,
                      .fix = "install a driver of CUDA 12.0 or newer"};
  }
  if (auto ready = driver->check(driver->functions_.init(0), "cuInit"); !ready) return ready.error();
  if (auto known = driver->check(driver->functions_.driver_version(&driver->version_), "cuDriverGetVersion"); !known)
    return known.error();
  return std::shared_ptr<const Driver>(std::move(driver));
}

Driver::~Driver() {
  // Drivers do not survive being unloaded: threads and exit handlers of theirs stay behind.
}

Result<Done> Driver::check(cuda::Code code, const char* what) const {
  if (code == cuda::success) return Done{};
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.error_name(code, &name) != cuda::success || name == nullptr) name = "unknown error";
  if (functions_.error_text(code, &text) != cuda::success || text == nullptr) text = "no description";
  return Diagnostic{.message = std::string(what) + ": " + name + " (" + text + ")"};
}

std::string system_driver_library() {
  const char* forced = std::getenv("FLASHMOE_DRIVER");
  return forced != nullptr && *forced != '\0' ? forced : "libcuda.so.1";
}

Result<std::string> virtual_driver_library() {
  const char* forced = std::getenv("FLASHMOE_DRIVER");
  if (forced != nullptr && *forced != '\0') return std::string(forced);
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  // Installed: bin/ beside lib/flashmoe/vgpu/. Build tree: somewhere below the directory that holds vgpu/.
  for (auto at = self.parent_path(); !at.empty() && at != at.root_path(); at = at.parent_path()) {
    for (const char* place : {"lib/flashmoe/vgpu/libcuda.so.1", "vgpu/libcuda.so.1"}) {
      if (std::filesystem::exists(at / place, ignored)) return (at / place).string();
    }
  }
  return Diagnostic{.message = "the virtual GPU's driver (vgpu/libcuda.so.1) is not beside " + self.string(),
                    .fix = "build the target vgpu, or say where it is: FLASHMOE_DRIVER=<build>/vgpu/libcuda.so.1"};
}

}  // namespace flashmoe::runtime
