// cpu: this machine itself.
#include "workflow/device/kinds.hpp"

namespace flashmoe::workflow {
namespace {

std::optional<Result<DeviceSelector>> parse_cpu(const std::string& behind, const std::string& /*text*/) {
  if (!behind.empty()) return std::nullopt;
  return DeviceSelector{};
}

std::string nothing(const DeviceSelector& /*device*/) {
  return "";
}

Result<Done> cpu_available(const DeviceSelector& /*device*/) {
  return Done{};
}

}  // namespace

const DeviceRow cpu_device{DeviceKind::cpu, "cpu", "cpu", true, parse_cpu, nothing, cpu_available};

}  // namespace flashmoe::workflow
