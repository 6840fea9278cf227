// What a card says of itself while it runs (clocks and what holds them down, temperature, power, who else computes on
// it), through NVML, which is loaded by name at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/nvml_abi.hpp"
#include "support/result.hpp"

namespace flashmoe::runtime {

struct CardProcess {
  unsigned pid = 0;  // in the namespace of the driver: inside a container it is not what getpid() says
  std::optional<std::uint64_t> memory_bytes{};
};

// Empty: the card, its driver or the machine's owner does not tell. Rented cards leave out much.
struct CardState {
  std::string pci_bus_id{};
  std::optional<std::string> driver_version{}, name{}, uuid{};
  std::optional<unsigned> sm_clock_mhz{}, memory_clock_mhz{};
  std::optional<unsigned> max_sm_clock_mhz{}, max_memory_clock_mhz{};
  std::optional<std::uint64_t> clock_reasons{};  // bits: clock_reason_words(), spoils_times()
  std::optional<unsigned> temperature_celsius{};
  std::optional<double> power_watts{};
  std::optional<double> power_limit_watts{};          // that is enforced: the least of all limits
  std::optional<double> chosen_power_limit_watts{};   // that somebody set
  std::optional<double> default_power_limit_watts{};  // after a boot
  std::optional<unsigned> gpu_utilization_percent{};  // of the last sample period some kernel ran
  std::optional<unsigned> memory_utilization_percent{};
  std::optional<std::uint64_t> memory_bytes{}, memory_used_bytes{};
  std::optional<std::vector<CardProcess>> processes{};  // that compute on it; who asks is one of them if it does
  std::optional<bool> persistence_mode{}, ecc{}, mig{};
};

struct ClockReason {
  std::uint64_t bit = 0;
  const char* words = "";
  bool spoils_times = false;  // clocks lower than what the card would have taken for this work
};
[[nodiscard]] std::span<const ClockReason> all_clock_reasons();
// "power cap", "thermal slowdown"; a bit that has no name is told by its number.
[[nodiscard]] std::vector<std::string> clock_reason_words(std::uint64_t reasons);
// Whether a time taken under them is not the card's own. An idle card's clocks rise when work comes, and clocks that
// somebody has set are the ones asked for; a reason that is not known spoils.
[[nodiscard]] bool spoils_times(std::uint64_t reasons);

class Nvml {
 public:
  // Loads and initialises it.
  [[nodiscard]] static Result<std::shared_ptr<const Nvml>> open(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] const std::string& library() const { return library_; }
  // Of the card at that place ("0000:01:00.0", Context::pci_bus_id()). Never by number: CUDA and NVML count in other
  // orders. An error when there is no such card or it is lost; what it does not tell is an empty field.
  [[nodiscard]] Result<CardState> state(const std::string& pci_bus_id) const;

 private:
  Nvml() = default;
  [[nodiscard]] Diagnostic failure(nvml::Code code, const std::string& what) const;
  std::string library_{};
  bool is_initialised_ = false;
  nvml::Functions functions_{};
};

// FLASHMOE_NVML wins; beside a driver that is given as a path lies its own; else the system's.
[[nodiscard]] std::string nvml_library(const std::string& driver_library);

}  // namespace flashmoe::runtime
