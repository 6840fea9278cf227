// The CUDA toolkit, the driver and the GPUs behind it, each without the others.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "devices/device.hpp"
#include "runtime/cuda_abi.hpp"
#include "runtime/driver.hpp"
#include "support/kernel_files.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/environment/nvdisasm.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

// The few entry points of the driver API that tell what is there; CUresult 0 is success.
struct Driver {
  void* library = nullptr;
  int version = 0;  // 13000 for 13.0
  int result = 0;   // of cuInit
  std::vector<CudaGpuFacts> gpus{};

  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() {
    if (library != nullptr) dlclose(library);
  }
  template <class Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library, name));
  }
};

constexpr int attribute_sm_count = 16;
constexpr int attribute_major = 75;
constexpr int attribute_minor = 76;

void ask_driver(Driver& driver) {
  driver.library = dlopen(runtime::system_driver_library().c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (driver.library == nullptr) return;
  const auto version = driver.find<int (*)(int*)>("cuDriverGetVersion");
  const auto init = driver.find<int (*)(unsigned)>("cuInit");
  const auto count = driver.find<int (*)(int*)>("cuDeviceGetCount");
  const auto get = driver.find<int (*)(int*, int)>("cuDeviceGet");
  const auto name = driver.find<int (*)(char*, int, int)>("cuDeviceGetName");
  const auto attribute = driver.find<int (*)(int*, int, int)>("cuDeviceGetAttribute");
  if (version != nullptr) version(&driver.version);
  if (init == nullptr || count == nullptr || get == nullptr || name == nullptr || attribute == nullptr) return;
  driver.result = init(0);
  int devices = 0;
  if (driver.result != 0 || count(&devices) != 0) return;
  for (int i = 0; i < devices; ++i) {
    int device = 0;
    char text[256] = {};
    int sms = 0;
    int major = 0;
    int minor = 0;
    if (get(&device, i) != 0) continue;
    name(text, sizeof(text) - 1, device);
    attribute(&sms, attribute_sm_count, device);
    attribute(&major, attribute_major, device);
    attribute(&minor, attribute_minor, device);
    driver.gpus.push_back({.name = text, .architecture = fmt::format("sm_{}{}", major, minor), .sm_count = sms});
  }
}

std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

void judge_driver_version(int version, const std::string& toolkit, Observations& seen) {
  constexpr const char* oldest = "525, for CUDA 12.0, is the oldest driver that libflashmoe.so can use";
  const int toolkit_major = std::atoi(toolkit.c_str());
  if (version < runtime::cuda::oldest_driver)
    seen.warn("cuda", fmt::format("the driver is for CUDA {}: {}", dotted(version), oldest), "update NVIDIA's driver",
              Need::gpu);
  else if (toolkit_major > version / 1000)
    seen.warn("cuda",
              fmt::format("the toolkit is {} and the driver only knows CUDA {}: cubins that the toolkit makes will not "
                          "load, PTX will (libflashmoe.so has both)",
                          toolkit, dotted(version)),
              fmt::format("update the driver to one for CUDA {}, or build with a toolkit of CUDA {}", toolkit_major,
                          version / 1000),
              Need::gpu);
  else
    seen.ok("cuda", fmt::format("driver for CUDA {} ({})", dotted(version), oldest));
}

namespace {

void examine_driver(const Driver& driver, const Result<CudaToolkit>& toolkit, Observations& seen) {
  if (driver.library == nullptr) {
    seen.warn(
        "gpu",
        "no CUDA driver (libcuda.so.1 does not load): kernels run on --device cpu, CUDA sources are compiled and "
        "checked, and run on a --device virtual:<gpu>, which is never timed",
        "nothing to do without a GPU; with one, install NVIDIA's driver (525, for CUDA 12.0, is the oldest that will "
        "do) and run: cudadent doctor",
        Need::gpu);
    return;
  }
  judge_driver_version(driver.version, toolkit ? toolkit->version : "", seen);
  if (driver.result != 0) {
    seen.warn("gpu", fmt::format("the driver is installed, but cuInit returns {}", driver.result),
              "check that a GPU is attached and the container may see it (docker run --gpus all)", Need::gpu);
    return;
  }
  if (driver.gpus.empty())
    seen.warn("gpu", "the driver sees no GPU", "attach one, or unset CUDA_VISIBLE_DEVICES", Need::gpu);
  for (const CudaGpuFacts& gpu : driver.gpus) {
    if (find_architecture(gpu.architecture))
      seen.ok("gpu", fmt::format("{}, {}, {} SMs", gpu.name, gpu.architecture, gpu.sm_count), Need::gpu);
    else
      seen.warn("gpu", fmt::format("{} is {}, whose limits are unknown here", gpu.name, gpu.architecture),
                "its CUDA builds cannot be checked before they run", Need::gpu);
  }
}

}  // namespace

Observations examine_nvdisasm(double python_limit_seconds) {
  Observations seen;
  const auto limit = std::chrono::milliseconds(static_cast<long>(python_limit_seconds * 1e3));
  if (const auto nvdisasm = find_nvdisasm(limit))
    seen.ok("cuda", fmt::format("nvdisasm, which predicted times want ({})", *nvdisasm));
  else
    seen.ok("cuda", "no nvdisasm: no time is predicted; " + nvdisasm.error().fix);
  return seen;
}

Observations examine_cuda() {
  Observations seen;
  const auto toolkit = find_cuda_toolkit();
  if (toolkit)
    seen.ok("cuda", fmt::format("toolkit {} ({})", toolkit->version, toolkit->nvcc), Need::cuda_toolkit);
  else
    seen.warn("cuda", toolkit.error().message, toolkit.error().fix, Need::cuda_toolkit);
  Driver driver;
  ask_driver(driver);
  examine_driver(driver, toolkit, seen);
  const std::string kernel_module = first_line_of("/sys/module/nvidia/version");
  CudaFacts facts;
  if (toolkit) facts.toolkit = toolkit->version;
  if (toolkit) facts.nvcc = toolkit->nvcc;
  if (driver.version > 0) facts.driver_cuda = dotted(driver.version);
  if (!kernel_module.empty()) facts.kernel_module = kernel_module;
  facts.gpus = driver.gpus;
  if (const auto library = find_flashmoe_library()) {  // without one the compilers' group says so
    std::vector<int> gpus;
    for (const CudaGpuFacts& gpu : driver.gpus) gpus.push_back(std::atoi(gpu.architecture.c_str() + 3));
    facts.embedded_images = judge_library_images(library_images(*library), gpus, seen);
  }
  seen.facts.cuda = std::move(facts);
  return seen;
}

}  // namespace flashmoe::workflow
