// virtual:<gpu>: the virtual GPU as one of the cards of the table.
#include <fmt/format.h>

#include "devices/device.hpp"
#include "runtime/driver.hpp"
#include "workflow/device/kinds.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::optional<Result<DeviceSelector>> parse_virtual(const std::string& behind, const std::string& text) {
  if (const auto gpu = find_gpu(behind); !gpu)
    return Diagnostic{.message = fmt::format("device \"{}\": {}", text, gpu.error().message),
                      .fix = "use one of them, as in: --device virtual:l4",
                      .code = codes::usage_device};
  return DeviceSelector{.kind = DeviceKind::virtual_gpu, .gpu = behind};
}

std::string gpu_of(const DeviceSelector& device) {
  return device.gpu;
}

Capabilities virtual_capabilities() {
  return {.runs = Runs::cuda_code, .counters = CounterKind::exact, .checks = true, .schedules = true};
}

Result<Done> virtual_available(const DeviceSelector& /*device*/) {
  if (const auto library = runtime::virtual_driver_library(); !library) {
    Diagnostic problem = library.error();
    problem.code = codes::environment_no_device;
    return problem;
  }
  return Done{};
}

}  // namespace

const DeviceRow virtual_device{DeviceKind::virtual_gpu, "virtual:",    "virtual:<gpu> (virtual:l4)",
                               virtual_capabilities,    parse_virtual, gpu_of,
                               virtual_available};

}  // namespace flashmoe::workflow
