#include "runtime/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace flashmoe::runtime {
namespace {

constexpr const char* system_library = "libnvidia-ml.so.1";

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
}

void find_all(void* handle, nvml::Functions& f) {
  find(handle, "nvmlInit_v2", f.init);
  find(handle, "nvmlShutdown", f.shutdown);
  find(handle, "nvmlErrorString", f.error_text);
  find(handle, "nvmlSystemGetDriverVersion", f.driver_version);
  find(handle, "nvmlDeviceGetHandleByPciBusId_v2", f.by_pci_bus_id);
  find(handle, "nvmlDeviceGetName", f.name);
  find(handle, "nvmlDeviceGetUUID", f.uuid);
  find(handle, "nvmlDeviceGetClockInfo", f.clock);
  find(handle, "nvmlDeviceGetMaxClockInfo", f.max_clock);
  find(handle, "nvmlDeviceGetCurrentClocksEventReasons", f.clock_event_reasons);
  find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", f.clock_throttle_reasons);
  find(handle, "nvmlDeviceGetTemperature", f.temperature);
  find(handle, "nvmlDeviceGetPowerUsage", f.power);
  find(handle, "nvmlDeviceGetEnforcedPowerLimit", f.enforced_power_limit);
  find(handle, "nvmlDeviceGetPowerManagementLimit", f.power_management_limit);
  find(handle, "nvmlDeviceGetPowerManagementDefaultLimit", f.default_power_limit);
  find(handle, "nvmlDeviceGetUtilizationRates", f.utilization);
  find(handle, "nvmlDeviceGetMemoryInfo", f.memory);
  find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", f.compute_processes);
  find(handle, "nvmlDeviceGetPersistenceMode", f.persistence_mode);
  find(handle, "nvmlDeviceGetEccMode", f.ecc_mode);
  find(handle, "nvmlDeviceGetMigMode", f.mig_mode);
}

const char* remedy(nvml::Code code) {
  switch (code) {
    case nvml::driver_not_loaded:
      return "load NVIDIA's kernel module (nvidia-smi does), or reboot after the driver's installation";
    case nvml::version_mismatch:
      return "reboot, or reinstall the driver so that its kernel module and libnvidia-ml.so.1 are of one version";
    case nvml::no_permission:
      return "ask the machine's owner for access to /dev/nvidia*, or run where the container has the card";
    case nvml::not_found:
      return "see that nvidia-smi lists the GPU, and that libcuda.so.1 and libnvidia-ml.so.1 are of one driver";
    case nvml::gpu_is_lost:
    case nvml::reset_required:
      return "the card fell off its bus or wants a reset: nvidia-smi --gpu-reset, or reboot the machine";
    default:
      return "run nvidia-smi, which asks the same library";
  }
}

// Calls one function into one value. No function in this library, or any answer but success: not told.
template <class Value, class Function, class... A>
std::optional<Value> ask(Function function, A... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != nvml::success) return std::nullopt;
  return value;
}

template <std::size_t bytes, class Function, class... A>
std::optional<std::string> ask_text(Function function, A... arguments) {
  std::array<char, bytes> text{};
  if (function == nullptr || function(arguments..., text.data(), text.size()) != nvml::success) return std::nullopt;
  text.back() = '\0';
  return std::string(text.data());
}

template <class Function>
std::optional<double> ask_watts(Function function, nvml::DeviceHandle device) {
  const auto milliwatts = ask<unsigned>(function, device);
  if (!milliwatts) return std::nullopt;
  return *milliwatts * 1e-3;
}

// Of a mode that is, and one after the next boot.
template <class Mode, class Function>
std::optional<bool> ask_current(Function function, nvml::DeviceHandle device) {
  Mode current{}, pending{};
  if (function == nullptr || function(device, &current, &pending) != nvml::success) return std::nullopt;
  return current != 0;
}

std::optional<std::vector<CardProcess>> ask_processes(const nvml::Functions& call, nvml::DeviceHandle device) {
  if (call.compute_processes == nullptr) return std::nullopt;
  // One may start between the question how many there are and the next one: room for more, and a few attempts.
  std::vector<nvml::ProcessInfo> found(16);
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<unsigned>(found.size());
    const nvml::Code code = call.compute_processes(device, &count, found.data());
    if (code == nvml::insufficient_size) {
      found.resize(2 * static_cast<std::size_t>(count) + 16);
      continue;
    }
    if (code != nvml::success) return std::nullopt;
    std::vector<CardProcess> processes;
    for (const nvml::ProcessInfo& one : std::span(found).first(std::min<std::size_t>(count, found.size()))) {
      CardProcess& process = processes.emplace_back(CardProcess{.pid = one.pid});
      if (one.used_memory != nvml::memory_not_available) process.memory_bytes = one.used_memory;
    }
    return processes;
  }
  return std::nullopt;
}

constexpr std::array reasons{
    ClockReason{nvml::reason_idle, "idle", false},
    ClockReason{nvml::reason_application_clocks, "clocks set by the user", false},
    ClockReason{nvml::reason_software_power_cap, "power cap", true},
    ClockReason{nvml::reason_hardware_slowdown, "hardware slowdown", true},
    ClockReason{nvml::reason_sync_boost, "clocks of a group of cards", true},
    ClockReason{nvml::reason_software_thermal, "thermal slowdown", true},
    ClockReason{nvml::reason_hardware_thermal, "hardware thermal slowdown", true},
    ClockReason{nvml::reason_power_brake, "power brake", true},
    ClockReason{nvml::reason_display_clocks, "clocks of a display", true},
    // "below application clocks", as the documentation has it of NVML_PERF_POLICY_BOARD_LIMIT and _RELIABILITY.
    ClockReason{nvml::reason_board_limit, "board limit", true},
    ClockReason{nvml::reason_reliability, "reliability limit", true},
};

}  // namespace

std::span<const ClockReason> all_clock_reasons() {
  return reasons;
}

std::vector<std::string> clock_reason_words(std::uint64_t bits) {
  std::vector<std::string> words;
  for (const ClockReason& one : reasons) {
    if ((bits & one.bit) != 0) words.emplace_back(one.words);
    bits &= ~one.bit;
  }
  for (unsigned bit = 0; bit < 64; ++bit)
    if ((bits >> bit & 1U) != 0) words.push_back("reason of bit " + std::to_string(bit));
  return words;
}

bool spoils_times(std::uint64_t bits) {
  for (const ClockReason& one : reasons)
    if (!one.spoils_times) bits &= ~one.bit;
  return bits != 0;
}

Result<std::shared_ptr<const Nvml>> Nvml::open(const std::string& library) {
  std::shared_ptr<Nvml> nvml(new Nvml);
  nvml->library_ = library;
  // Never closed, as the driver itself.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Diagnostic{.message = std::string("NVML does not load: ") + (why ? why : library),
                      .fix =
                          "install the NVIDIA driver (a container wants NVIDIA_DRIVER_CAPABILITIES=compute,utility), "
                          "or say where its libnvidia-ml.so.1 is: FLASHMOE_NVML=<path>"};
  }
  nvml::Functions& call = nvml->functions_;
  find_all(handle, call);
  if (call.init == nullptr || call.shutdown == nullptr || call.by_pci_bus_id == nullptr)
    return Diagnostic{.message = library +
                                 " is no NVML we can use: it lacks nvmlInit_v2, nvmlShutdown or "
                                 "nvmlDeviceGetHandleByPciBusId_v2",
                      .fix = "take the libnvidia-ml.so.1 of NVIDIA's driver, 525 or newer"};
  if (const nvml::Code code = call.init(); code != nvml::success) return nvml->failure(code, "nvmlInit");
  nvml->is_initialised_ = true;
  return std::shared_ptr<const Nvml>(std::move(nvml));
}

Nvml::~Nvml() {
  if (is_initialised_) functions_.shutdown();
}

Diagnostic Nvml::failure(nvml::Code code, const std::string& what) const {
  const char* const text = functions_.error_text != nullptr ? functions_.error_text(code) : nullptr;
  return {.message = what + ": " + (text != nullptr ? text : "NVML error " + std::to_string(code)),
          .fix = remedy(code)};
}

Result<CardState> Nvml::state(const std::string& pci_bus_id) const {
  const nvml::Functions& call = functions_;
  nvml::DeviceHandle device = nullptr;
  if (const nvml::Code code = call.by_pci_bus_id(pci_bus_id.c_str(), &device); code != nvml::success)
    return failure(code, "nvmlDeviceGetHandleByPciBusId(" + pci_bus_id + ")");
  CardState card;
  card.pci_bus_id = pci_bus_id;
  card.driver_version = ask_text<nvml::driver_version_bytes>(call.driver_version);
  card.name = ask_text<nvml::name_bytes>(call.name, device);
  card.uuid = ask_text<nvml::uuid_bytes>(call.uuid, device);
  card.sm_clock_mhz = ask<unsigned>(call.clock, device, nvml::Clock::sm);
  card.memory_clock_mhz = ask<unsigned>(call.clock, device, nvml::Clock::memory);
  card.max_sm_clock_mhz = ask<unsigned>(call.max_clock, device, nvml::Clock::sm);
  card.max_memory_clock_mhz = ask<unsigned>(call.max_clock, device, nvml::Clock::memory);
  card.clock_reasons = ask<unsigned long long>(call.clock_event_reasons, device);
  if (!card.clock_reasons) card.clock_reasons = ask<unsigned long long>(call.clock_throttle_reasons, device);
  card.temperature_celsius = ask<unsigned>(call.temperature, device, nvml::TemperatureSensor::gpu);
  card.power_watts = ask_watts(call.power, device);
  card.power_limit_watts = ask_watts(call.enforced_power_limit, device);
  card.chosen_power_limit_watts = ask_watts(call.power_management_limit, device);
  card.default_power_limit_watts = ask_watts(call.default_power_limit, device);
  if (const auto rates = ask<nvml::Utilization>(call.utilization, device)) {
    card.gpu_utilization_percent = rates->gpu;
    card.memory_utilization_percent = rates->memory;
  }
  if (const auto memory = ask<nvml::Memory>(call.memory, device)) {
    card.memory_bytes = memory->total;
    card.memory_used_bytes = memory->used;
  }
  card.processes = ask_processes(call, device);
  if (const auto mode = ask<int>(call.persistence_mode, device)) card.persistence_mode = *mode != 0;
  card.ecc = ask_current<int>(call.ecc_mode, device);
  card.mig = ask_current<unsigned>(call.mig_mode, device);
  // A card that is lost answers nothing: that is not a card which does not tell. Only the clock is asked of all cards.
  unsigned mhz = 0;
  if (call.clock != nullptr)
    if (const nvml::Code code = call.clock(device, nvml::Clock::sm, &mhz);
        code == nvml::gpu_is_lost || code == nvml::reset_required)
      return failure(code, "the card at " + pci_bus_id);
  return card;
}

std::string nvml_library(const std::string& driver_library) {
  const char* const forced = std::getenv("FLASHMOE_NVML");
  if (forced != nullptr && *forced != '\0') return forced;
  if (driver_library.find('/') != std::string::npos) {
    std::error_code ignored;
    const auto beside = std::filesystem::path(driver_library).parent_path() / system_library;
    if (std::filesystem::exists(beside, ignored)) return beside.string();
  }
  return system_library;
}

}  // namespace flashmoe::runtime
