// The card behind cuda:<n>, as its driver tells it.
#pragma once

#include <cstdint>
#include <string>

#include "workflow/device/selector.hpp"

namespace flashmoe::workflow {

struct Card {
  std::string driver{};        // its library
  std::string name{};          // "NVIDIA L4"
  std::string gpu{};           // "l4"; empty: not in our table
  std::string architecture{};  // "sm_89"
  std::string pci{};           // "0000:00:03.0", by which NVML knows it
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  int driver_version = 0;  // 13000: for CUDA 13.0
  bool rehearsal = false;  // a virtual GPU stands in for it
};

// Opens the driver and asks. Diagnostics have the codes of a missing driver or device.
[[nodiscard]] Result<Card> card_of(const DeviceSelector& device);

// Which library speaks for the device: the system's driver, or the virtual one.
[[nodiscard]] Result<std::string> driver_of(const DeviceSelector& device);

}  // namespace flashmoe::workflow
