#include "workflow/device/selector.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "devices/device.hpp"
#include "runtime/driver.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* allowed = "cpu, virtual:<gpu> (virtual:l4) or cuda:<n> (cuda:0)";

}  // namespace

std::string DeviceSelector::to_string() const {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::virtual_gpu:
      return "virtual:" + gpu;
    case DeviceKind::cuda:
      return fmt::format("cuda:{}", ordinal);
  }
  return "unknown";
}

Result<DeviceSelector> parse_device(const std::string& text) {
  const Diagnostic wrong{.message = fmt::format("\"{}\" is not a device; allowed are {}", text, allowed),
                         .fix = "use --device cpu, or unset FLASHMOE_DEVICE"};
  if (text == "cpu") return DeviceSelector{};
  if (text.rfind("virtual:", 0) == 0) {
    DeviceSelector device{.kind = DeviceKind::virtual_gpu, .gpu = text.substr(8)};
    if (auto gpu = find_gpu(device.gpu); !gpu)
      return Diagnostic{.message = fmt::format("device \"{}\": {}", text, gpu.error().message),
                        .fix = "use one of them, as in: --device virtual:l4"};
    return device;
  }
  if (text.rfind("cuda:", 0) == 0) {
    DeviceSelector device{.kind = DeviceKind::cuda};
    const char* begin = text.data() + 5;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, device.ordinal);
    if (error != std::errc{} || stop != end || begin == end || device.ordinal < 0) return wrong;
    return device;
  }
  return wrong;
}

Result<DeviceSelector> select_device(const std::string& flag) {
  if (!flag.empty()) {
    auto device = parse_device(flag);
    if (device) device->from = "--device";
    return device;
  }
  const char* variable = std::getenv("FLASHMOE_DEVICE");
  if (variable == nullptr || *variable == '\0') return DeviceSelector{};
  auto device = parse_device(variable);
  if (!device) return Diagnostic{.message = "FLASHMOE_DEVICE: " + device.error().message, .fix = device.error().fix};
  device->from = "FLASHMOE_DEVICE";
  return device;
}

Result<Done> device_available(const DeviceSelector& device) {
  if (device.kind == DeviceKind::cpu) return Done{};
  if (device.kind == DeviceKind::virtual_gpu) {
    if (const auto library = runtime::virtual_driver_library(); !library) return library.error();
    return Done{};
  }
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr)
    return Diagnostic{
        .message = fmt::format("{}: there is no CUDA driver here (libcuda.so.1 does not load)", device.to_string()),
        .fix = "use --device cpu, or install the NVIDIA driver on a machine with a GPU"};
  dlclose(driver);
  return Diagnostic{.message = fmt::format("running kernels on {} is not part of this version", device.to_string()),
                    .fix = "use --device cpu; the build gate checks the CUDA sources without a GPU"};
}

}  // namespace flashmoe::workflow
