// cpu: this machine itself.
#include "support/perf_events.hpp"
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

Capabilities cpu_capabilities() {
  return {.runs = Runs::host_code,
          .clock = ClockKind::measured,
          .counters = hardware_counters_allowed() ? CounterKind::hardware : CounterKind::degraded};
}

Result<Done> cpu_available(const DeviceSelector& /*device*/) {
  return Done{};
}

}  // namespace

const DeviceRow cpu_device{DeviceKind::cpu, "cpu", "cpu", cpu_capabilities, parse_cpu, nothing, cpu_available};

}  // namespace flashmoe::workflow
