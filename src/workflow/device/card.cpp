#include "workflow/device/card.hpp"

#include <fmt/format.h>

#include "devices/device.hpp"
#include "runtime/device.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {

Result<std::string> driver_of(const DeviceSelector& device) {
  if (device.kind == DeviceKind::cuda) return runtime::system_driver_library();
  auto library = runtime::virtual_driver_library();
  if (library) return library;
  Diagnostic problem = library.error();
  problem.code = codes::environment_no_device;
  return problem;
}

Result<Card> card_of(const DeviceSelector& device) {
  const auto unusable = [&](Diagnostic problem) {
    problem.message = fmt::format("{}: {}", device.to_string(), problem.message);
    problem.code = codes::environment_no_gpu;
    return problem;
  };
  const auto library = driver_of(device);
  if (!library) return library.error();
  const auto driver = runtime::Driver::open(*library);
  if (!driver) return unusable(driver.error());
  const runtime::cuda::Functions& call = (*driver)->call();
  int count = 0;
  if (auto counted = (*driver)->check(call.device_count(&count), "cuDeviceGetCount"); !counted)
    return unusable(counted.error());
  if (device.ordinal >= count)
    return unusable({.message = fmt::format("the driver sees {} GPU{}", count, count == 1 ? "" : "s"),
                     .fix = count == 0 ? "attach one, or unset CUDA_VISIBLE_DEVICES"
                                       : fmt::format("use --device cuda:0 up to cuda:{}", count - 1)});
  runtime::cuda::DeviceHandle handle = 0;
  if (auto got = (*driver)->check(call.device_get(&handle, device.ordinal), "cuDeviceGet"); !got)
    return unusable(got.error());
  Card card{.driver = *library,
            .driver_version = (*driver)->version(),
            .rehearsal = device.kind == DeviceKind::rehearsal || (*driver)->is_virtual()};
  char text[256] = {};
  if (call.device_name(text, sizeof text - 1, handle) == runtime::cuda::success) card.name = text;
  const auto measuring = (*driver)->measuring();
  if (!measuring) return unusable(measuring.error());
  char pci[32] = {};
  if ((*measuring)->device_pci_bus_id(pci, sizeof pci - 1, handle) == runtime::cuda::success) card.pci = pci;
  const auto attribute = [&](runtime::cuda::DeviceAttribute which) {
    int value = 0;
    return call.device_attribute(&value, which, handle) == runtime::cuda::success ? value : 0;
  };
  using enum runtime::cuda::DeviceAttribute;
  card.sm_count = attribute(multiprocessor_count);
  card.l2_bytes = attribute(l2_bytes);
  card.architecture = fmt::format("sm_{}{}", attribute(compute_capability_major), attribute(compute_capability_minor));
  const std::string model = card.name.substr(0, card.name.find(" (virtual)"));
  for (const Gpu& gpu : all_gpus())
    if (gpu.name == model) card.gpu = gpu.id;
  return card;
}

}  // namespace flashmoe::workflow
