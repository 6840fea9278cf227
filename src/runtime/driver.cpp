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
  find(handle, "cuCtxGetDevice", f.context_device, missing);
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
  std::string may_be_missing;
  find(handle, "cuFuncGetParamInfo", f.function_parameter, may_be_missing);
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
  find(handle, "cuThreadExchangeStreamCaptureMode", f.exchange_capture_mode, missing);
  return missing;
}

std::string find_measuring(void* handle, cuda::MeasuringFunctions& f) {
  std::string missing;
  find(handle, "cuDeviceGetUuid_v2", f.device_uuid, missing);
  find(handle, "cuDeviceGetPCIBusId", f.device_pci_bus_id, missing);
  find(handle, "cuMemcpyHtoDAsync_v2", f.copy_to_device_async, missing);
  find(handle, "cuEventCreate", f.event_create, missing);
  find(handle, "cuEventDestroy_v2", f.event_destroy, missing);
  find(handle, "cuEventRecord", f.event_record, missing);
  find(handle, "cuEventSynchronize", f.event_synchronize, missing);
  find(handle, "cuEventElapsedTime", f.event_elapsed, missing);  // _v2 is younger than CUDA 12.0
  find(handle, "cuStreamBeginCapture_v2", f.capture_begin, missing);
  find(handle, "cuStreamEndCapture", f.capture_end, missing);
  find(handle, "cuGraphInstantiateWithFlags", f.graph_instantiate, missing);
  find(handle, "cuGraphUpload", f.graph_upload, missing);
  find(handle, "cuGraphLaunch", f.graph_launch, missing);
  find(handle, "cuGraphExecDestroy", f.graph_exec_destroy, missing);
  find(handle, "cuGraphDestroy", f.graph_destroy, missing);
  return missing;
}

bool says_virtual(void* handle) {
  return dlsym(handle, "vgpu_identity") != nullptr;
}

// What a virtual GPU knows better than its caller.
constexpr const char* virtual_remedy =
    "see what the virtual GPU says of it: its findings, and its log (VGPU_LOG, else stderr)";

// What helps, by CUresult. Of images and PTX the reason is nearly always the driver's age.
const char* remedy(cuda::Code code, bool is_virtual) {
  switch (code) {
    case cuda::out_of_memory:
      return "free memory of the GPU, or ask for less, and try again";
    case 3:  // NOT_INITIALIZED
    case 4:  // DEINITIALIZED
      return "call it while the process runs, not from an exit handler";
    case cuda::no_device:
    case 101:  // INVALID_DEVICE
    case 46:   // DEVICE_UNAVAILABLE
      return "see that nvidia-smi lists the GPU, and that the container may use it (docker run --gpus all)";
    case 802:  // SYSTEM_NOT_READY
    case 803:  // SYSTEM_DRIVER_MISMATCH
    case 804:  // COMPAT_NOT_SUPPORTED_ON_DEVICE
      return "reboot, or reinstall the driver so that its kernel module and libcuda.so.1 are of one version";
    case 200:  // INVALID_IMAGE
    case cuda::no_binary_for_gpu:
    case 218:  // INVALID_PTX
    case 221:  // JIT_COMPILER_NOT_FOUND
    case 222:  // UNSUPPORTED_PTX_VERSION
    case 223:  // JIT_COMPILATION_DISABLED
      return is_virtual ? virtual_remedy : "update NVIDIA's driver: 525, for CUDA 12.0, is the oldest that will do";
    case 201:  // INVALID_CONTEXT
    case 709:  // CONTEXT_IS_DESTROYED
      return "make a context of this GPU current: cudaSetDevice, torch.cuda.set_device or cuCtxSetCurrent";
    case 400:  // INVALID_HANDLE
      return "pass a stream of this GPU that still exists";
    case 900:  // STREAM_CAPTURE_UNSUPPORTED
    case 901:  // STREAM_CAPTURE_INVALIDATED
    case 906:  // STREAM_CAPTURE_IMPLICIT
      return "prepare the plan before the capture begins: fms_attention_prepare";
    case 700:  // ILLEGAL_ADDRESS
    case 716:  // MISALIGNED_ADDRESS
    case 719:  // LAUNCH_FAILED
      return is_virtual ? virtual_remedy
                        : "an earlier kernel of this process failed: start it anew, and find that kernel with "
                          "compute-sanitizer";
    default:
      return is_virtual ? virtual_remedy
                        : "run cudadent doctor, and nvidia-smi, which name what is wrong with driver and GPU";
  }
}

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  std::shared_ptr<Driver> driver(new Driver);
  driver->library_ = library;
  driver->handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver->handle_ == nullptr) {
    const char* why = dlerror();
    return Diagnostic{.message = std::string("the CUDA driver does not load: ") + (why ? why : library),
                      .fix =
                          "install the NVIDIA driver on a machine with a GPU; without one: cudadent's --device "
                          "virtual:l4, or --device rehearsal:cuda:0, which goes the card's way on the virtual one; in "
                          "a program of your own FLASHMOE_DRIVER=<the virtual GPU's libcuda.so.1>"};
  }
  driver->is_virtual_ = says_virtual(driver->handle_);
  if (const std::string missing = find_all(driver->handle_, driver->functions_); !missing.empty()) {
    return Diagnostic{.message = library + " is no CUDA driver we can use: it does not export " + missing,
                      .fix = "update NVIDIA's driver: 525, for CUDA 12.0, is the oldest that will do"};
  }
  driver->missing_measuring_ = find_measuring(driver->handle_, driver->measuring_);
  if (auto ready = driver->check(driver->functions_.init(0), "cuInit"); !ready) return ready.error();
  // Who does not say gets what the oldest one gets.
  if (driver->functions_.driver_version(&driver->version_) != cuda::success || driver->version_ <= 0)
    driver->version_ = cuda::oldest_driver;
  if (driver->version_ < cuda::oldest_driver) {
    return Diagnostic{.message = library + " is a driver for CUDA " + std::to_string(driver->version_ / 1000) + "." +
                                 std::to_string(driver->version_ % 1000 / 10) + ", too old",
                      .fix = "update NVIDIA's driver: 525, for CUDA 12.0, is the oldest that will do"};
  }
  return std::shared_ptr<const Driver>(std::move(driver));
}

Driver::~Driver() {
  // Drivers do not survive being unloaded: threads and exit handlers of theirs stay behind.
}

Result<const cuda::MeasuringFunctions*> Driver::measuring() const {
  if (missing_measuring_.empty()) return &measuring_;
  return Diagnostic{.message = library_ + " cannot be measured on: it does not export " + missing_measuring_,
                    .fix = "update NVIDIA's driver: 525, for CUDA 12.0, is the oldest that will do"};
}

Result<Done> Driver::check(cuda::Code code, const char* what) const {
  if (code == cuda::success) return Done{};
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.error_name(code, &name) != cuda::success || name == nullptr) name = "unknown error";
  if (functions_.error_text(code, &text) != cuda::success || text == nullptr) text = "no description";
  return Diagnostic{.message = std::string(what) + ": " + name + " (" + text + ")", .fix = remedy(code, is_virtual_)};
}

std::string system_driver_library() {
  const char* forced = std::getenv("FLASHMOE_DRIVER");
  return forced != nullptr && *forced != '\0' ? forced : "libcuda.so.1";
}

bool is_virtual_driver(const std::string& library) {
  // Never closed: a driver does not survive it.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle != nullptr && says_virtual(handle);
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
