// cuda:<n>: a GPU of this machine.
#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>

#include "workflow/device/kinds.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::optional<Result<DeviceSelector>> parse_cuda(const std::string& behind, const std::string& /*text*/) {
  DeviceSelector device{.kind = DeviceKind::cuda};
  const char* end = behind.data() + behind.size();
  const auto [stop, error] = std::from_chars(behind.data(), end, device.ordinal);
  if (error != std::errc{} || stop != end || behind.empty() || device.ordinal < 0) return std::nullopt;
  return device;
}

std::string ordinal_of(const DeviceSelector& device) {
  return std::to_string(device.ordinal);
}

Capabilities cuda_capabilities() {
  return {.runs = Runs::cuda_code, .clock = ClockKind::measured, .needs_driver = true};
}

Result<Done> cuda_available(const DeviceSelector& device) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr)
    return Diagnostic{
        .message = fmt::format("{}: there is no CUDA driver here (libcuda.so.1 does not load)", device.to_string()),
        .fix = "use --device cpu, or install the NVIDIA driver on a machine with a GPU",
        .code = codes::environment_no_gpu};
  dlclose(driver);
  return Diagnostic{.message = fmt::format("running kernels on {} is not part of this version", device.to_string()),
                    .fix = "use --device cpu; the build gate checks the CUDA sources without a GPU",
                    .code = codes::environment_no_device};
}

}  // namespace

const DeviceRow cuda_device{DeviceKind::cuda, "cuda:",    "cuda:<n> (cuda:0)", cuda_capabilities,
                            parse_cuda,       ordinal_of, cuda_available};

}  // namespace flashmoe::workflow
