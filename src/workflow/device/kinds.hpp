// The table of devices: a kind is one row and the file it is in.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "workflow/device/capabilities.hpp"
#include "workflow/device/selector.hpp"

namespace flashmoe::workflow {

struct DeviceRow {
  DeviceKind kind;
  const char* prefix;   // "virtual:", or the whole text
  const char* example;  // how people are told to write it
  Capabilities (*capabilities)();
  // What stands behind the prefix; unset: it is no such device. `text` is the whole, for messages.
  std::optional<Result<DeviceSelector>> (*parse)(const std::string& behind, const std::string& text);
  std::string (*behind)(const DeviceSelector& device);
  Result<Done> (*available)(const DeviceSelector& device);
};

extern const DeviceRow cpu_device;
extern const DeviceRow virtual_device;
extern const DeviceRow cuda_device;
extern const DeviceRow rehearsal_device;

[[nodiscard]] std::span<const DeviceRow* const> all_device_kinds();

}  // namespace flashmoe::workflow
