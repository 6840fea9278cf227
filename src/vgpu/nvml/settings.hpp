// What the stand-in for NVML shall say: VGPU_NVML="throttle=power;temperature=84", or VGPU_NVML=@file with the same in
// it, a line or a semicolon between two, which is read anew at every question so that a test can change the card's
// state while a program runs.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::vgpu::nvml {

struct OtherProcess {
  unsigned pid = 0;
  std::uint64_t memory_bytes = 0;
};

// What can be asked and may be "unsupported", by the word for it.
inline constexpr std::string_view questions[] = {"clocks", "reasons",     "temperature", "power",
                                                 "limit",  "utilization", "memory",      "processes",
                                                 "ecc",    "mig",         "persistence", "max_clocks"};

struct Settings {
  std::uint64_t reasons = 0;  // of the clocks, as NVML's bits
  bool is_throttled = false;  // by one of those that lower them
  std::vector<OtherProcess> others{};
  std::optional<unsigned> sm_clock_mhz{}, temperature_celsius{}, power_watts{}, limit_watts{}, utilization_percent{};
  std::optional<bool> ecc{}, mig{}, persistence{};
  std::set<std::string, std::less<>> unsupported{};
  std::string driver{};   // a version: "525.60.13"
  bool is_lost = false;   // the card fell off its bus
  bool is_loaded = true;  // the kernel module
};

[[nodiscard]] Result<Settings> parse_settings(std::string_view text);

// What VGPU_NVML says now.
[[nodiscard]] Result<Settings> current_settings();

}  // namespace flashmoe::vgpu::nvml
