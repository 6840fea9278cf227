// Where to run: one selector for all commands. `--device` wins over FLASHMOE_DEVICE, which wins over what the project
// says, which wins over cpu.
#pragma once

#include <string>

#include "support/result.hpp"

namespace flashmoe::workflow {

// rehearsal: the way of a card, driver calls and all, with the virtual GPU in the card's place
enum class DeviceKind { cpu, virtual_gpu, cuda, rehearsal };

struct DeviceSelector {
  DeviceKind kind = DeviceKind::cpu;
  std::string gpu{};             // virtual: "l4"
  int ordinal = 0;               // cuda, rehearsal
  std::string from = "default";  // "--device", "FLASHMOE_DEVICE", "project", "default"
  [[nodiscard]] std::string to_string() const;
};

[[nodiscard]] Result<DeviceSelector> parse_device(const std::string& text);
// `flag` and `of_project` empty: they say nothing. The environment is read here.
[[nodiscard]] Result<DeviceSelector> select_device(const std::string& flag, const std::string& of_project = {});
// Whether something can run there now; the diagnostic says why not and what to do instead.
[[nodiscard]] Result<Done> device_available(const DeviceSelector& device);
// Whether a time taken there is the time of the kernel.
[[nodiscard]] bool has_clock(const DeviceSelector& device);

}  // namespace flashmoe::workflow
