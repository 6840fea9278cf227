#include "workflow/device/selector.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "devices/device.hpp"
#include "workflow/device/kinds.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// "cpu, virtual:<gpu> (virtual:l4) or cuda:<n> (cuda:0)"
std::string allowed() {
  std::string text;
  for (const DeviceRow* row : all_device_kinds()) {
    const bool last = row == all_device_kinds().back();
    text += fmt::format("{}{}", text.empty() ? "" : last ? " or " : ", ", row->example);
  }
  return text;
}

const DeviceRow& row_of(const DeviceSelector& device) {
  for (const DeviceRow* row : all_device_kinds()) {
    if (row->kind == device.kind) return *row;
  }
  return cpu_device;
}

}  // namespace

std::span<const DeviceRow* const> all_device_kinds() {
  static constexpr std::array rows{&cpu_device, &virtual_device, &cuda_device, &rehearsal_device};
  return rows;
}

std::string DeviceSelector::to_string() const {
  const DeviceRow& row = row_of(*this);
  return row.prefix + row.behind(*this);
}

Result<DeviceSelector> parse_device(const std::string& text) {
  for (const DeviceRow* row : all_device_kinds()) {
    const std::string prefix = row->prefix;
    if (!text.starts_with(prefix)) continue;
    if (auto parsed = row->parse(text.substr(prefix.size()), text)) return *parsed;
  }
  return Diagnostic{.message = fmt::format("\"{}\" is not a device; allowed are {}", text, allowed()),
                    .fix = find_gpu(text) ? fmt::format("use virtual:{} for the virtual one", text)
                                          : "use one of these, or unset FLASHMOE_DEVICE",
                    .code = codes::usage_device};
}

Result<DeviceSelector> select_device(const std::string& flag, const std::string& of_project) {
  const auto taken = [](const std::string& text, const char* from) -> Result<DeviceSelector> {
    auto device = parse_device(text);
    if (device) device->from = from;
    return device;
  };
  if (!flag.empty()) return taken(flag, "--device");
  const char* variable = std::getenv("FLASHMOE_DEVICE");
  if (variable != nullptr && *variable != '\0') {
    auto device = taken(variable, "FLASHMOE_DEVICE");
    if (device) return device;
    Diagnostic problem = device.error();
    problem.message = "FLASHMOE_DEVICE: " + problem.message;
    return problem;
  }
  return of_project.empty() ? Result<DeviceSelector>(DeviceSelector{}) : taken(of_project, "project");
}

Result<Done> device_available(const DeviceSelector& device) {
  return row_of(device).available(device);
}

Capabilities capabilities_of(const DeviceSelector& device) {
  return row_of(device).capabilities();
}

bool has_clock(const DeviceSelector& device) {
  return capabilities_of(device).clock != ClockKind::none;
}

const char* name_of(CounterKind counters) {
  switch (counters) {
    case CounterKind::exact:
      return "exact";
    case CounterKind::hardware:
      return "hardware";
    case CounterKind::degraded:
      return "degraded";
    case CounterKind::none:
      break;
  }
  return "none";
}

}  // namespace flashmoe::workflow
