// libnvidia-ml.so.1 for programs on the virtual GPU: the questions of src/runtime/nvml.hpp, answered for the card that
// VGPU_DEVICE names. Figures are those of src/devices where they have a source there; temperature, draw and utilization
// are made up, of no card. Whatever could be taken for a real one's says that it is virtual. Faults: settings.hpp.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "devices/device.hpp"
#include "vgpu/nvml/settings.hpp"

namespace {

using namespace flashmoe;
using flashmoe::vgpu::nvml::OtherProcess;
using flashmoe::vgpu::nvml::Settings;

// nvmlReturn_t
enum Answer : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  function_not_found = 13,
  gpu_is_lost = 15,
  unknown = 999,
};
enum ClockType : int { graphics = 0, sm = 1, memory = 2 };

struct nvmlMemory {
  unsigned long long total, free, used;
};
struct nvmlUtilization {
  unsigned gpu, memory;
};
struct nvmlProcessInfo {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
};

constexpr unsigned idle_celsius = 40;
constexpr unsigned milliwatts_per_watt = 1000;
constexpr unsigned no_instance = 0xFFFFFFFF;
constexpr int first_driver_with_event_reasons = 535;
constexpr const char* first_driver_of_cuda_13 = "580.65.06";
constexpr std::uint64_t most_devices = 8;

std::atomic<int> initialised{0};

std::string_view environment(const char* name, std::string_view otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::string_view(value);
}

// A handle is the device's number plus one.
struct Card {
  Gpu gpu{};
  std::size_t count = 1;
};

Result<Card> card() {
  auto gpu = find_gpu(std::string(environment("VGPU_DEVICE", "l4")));
  if (!gpu) return gpu.error();
  Card made{.gpu = *gpu};
  const auto text = environment("VGPU_COUNT", "1");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), made.count);
  if (error != std::errc{} || end != text.data() + text.size() || made.count < 1 || made.count > most_devices)
    return Diagnostic{.message = fmt::format("VGPU_COUNT={}, allowed: 1 to {}", text, most_devices)};
  return made;
}

// A C caller cannot catch, and gets numbers only: the words go to stderr.
template <class Body>
Answer answered(const Body& body) {
  try {
    const auto settings = flashmoe::vgpu::nvml::current_settings();
    const auto found = card();
    if (settings && found) return body(*settings, *found);
    std::fprintf(stderr, "vgpu: %s\n", (settings ? found.error() : settings.error()).to_string().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vgpu: NVML: %s\n", error.what());
  }
  return unknown;
}

// A question about one device, which `word` names in unsupported=.
template <class Body>
Answer asked(const void* device, std::string_view word, const Body& body) {
  return answered([&](const Settings& settings, const Card& card) -> Answer {
    if (initialised == 0) return uninitialized;
    const auto number = reinterpret_cast<std::uintptr_t>(device);
    if (number < 1 || number > card.count) return invalid_argument;
    if (settings.is_lost) return gpu_is_lost;
    if (settings.unsupported.contains(word)) return not_supported;
    return body(settings, card);
  });
}

Answer give(char* to, unsigned bytes, const std::string& text) {
  if (to == nullptr) return invalid_argument;
  if (bytes <= text.size()) return insufficient_size;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return success;
}

template <class Value>
Answer give(Value* to, Value value) {
  if (to == nullptr) return invalid_argument;
  *to = value;
  return success;
}

// Not told where nobody has said it of the card.
Answer give(unsigned* to, const Fact& fact, unsigned scale = 1) {
  if (!fact.verified()) return not_supported;
  return give(to, static_cast<unsigned>(fact.value) * scale);
}

Answer limit(const void* device, unsigned* milliwatts) {
  return asked(device, "limit", [&](const Settings& settings, const Card& card) {
    if (settings.limit_watts) return give(milliwatts, *settings.limit_watts * milliwatts_per_watt);
    return give(milliwatts, card.gpu.board_watts, milliwatts_per_watt);
  });
}

Answer give_reasons(const Settings& settings, unsigned long long* bits) {
  return give(bits, static_cast<unsigned long long>(settings.reasons));
}

int driver_major(const Settings& settings) {
  return std::atoi(settings.driver.empty() ? first_driver_of_cuda_13 : settings.driver.c_str());
}

template <class Mode>
Answer give_mode(const std::optional<bool>& mode, Mode* current, Mode* pending) {
  if (!mode) return not_supported;
  if (current == nullptr || pending == nullptr) return invalid_argument;
  *current = *pending = *mode ? 1 : 0;
  return success;
}

}  // namespace

#define VGPU_EXPORT extern "C" __attribute__((visibility("default")))

VGPU_EXPORT int nvmlInit_v2() {
  return answered([](const Settings& settings, const Card&) {
    if (!settings.is_loaded) return driver_not_loaded;
    ++initialised;
    return success;
  });
}
VGPU_EXPORT int nvmlInitWithFlags(unsigned /*flags*/) {
  return nvmlInit_v2();
}
VGPU_EXPORT int nvmlShutdown() {
  int before = initialised;
  while (before > 0 && !initialised.compare_exchange_weak(before, before - 1)) {
  }
  return before > 0 ? success : uninitialized;
}
VGPU_EXPORT const char* nvmlErrorString(int code) {
  switch (code) {
    case success:
      return "The operation was successful";
    case uninitialized:
      return "NVML was not first initialized with nvmlInit()";
    case invalid_argument:
      return "A supplied argument is invalid";
    case not_supported:
      return "The requested operation is not available on target device";
    case not_found:
      return "A query to find an object was unsuccessful";
    case insufficient_size:
      return "An input argument is not large enough";
    case driver_not_loaded:
      return "NVIDIA driver is not loaded";
    case function_not_found:
      return "Local version of NVML doesn't implement this function";
    case gpu_is_lost:
      return "The GPU has fallen off the bus or has otherwise become inaccessible";
    default:
      return "An internal driver error occurred";
  }
}
VGPU_EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  return answered([&](const Settings& settings, const Card&) -> Answer {
    if (initialised == 0) return uninitialized;
    return give(text, bytes,
                fmt::format("{} (virtual)", settings.driver.empty() ? first_driver_of_cuda_13 : settings.driver));
  });
}

VGPU_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  return answered([&](const Settings&, const Card& card) -> Answer {
    if (initialised == 0) return uninitialized;
    return give(count, static_cast<unsigned>(card.count));
  });
}
// In an order that is not CUDA's, as on machines with several cards: who takes one's number for the other's finds
// another card.
VGPU_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  return answered([&](const Settings&, const Card& card) -> Answer {
    if (initialised == 0) return uninitialized;
    if (index >= card.count) return invalid_argument;
    return give(device, reinterpret_cast<void*>(card.count - index));
  });
}
// "domain:bus:device.function", in hexadecimal; domain and function may be left out.
VGPU_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  return answered([&](const Settings&, const Card& card) -> Answer {
    if (initialised == 0) return uninitialized;
    if (bus_id == nullptr || device == nullptr) return invalid_argument;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (std::sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
      domain = function = 0;
      if (std::sscanf(bus_id, "%x:%x.%x", &bus, &slot, &function) < 2) return invalid_argument;
    }
    if (domain != 0 || slot != 0 || function != 0 || bus < 1 || bus > card.count) return not_found;
    return give(device, reinterpret_cast<void*>(static_cast<std::uintptr_t>(bus)));
  });
}
VGPU_EXPORT int nvmlDeviceGetName(void* device, char* text, unsigned bytes) {
  return asked(device, "", [&](const Settings&, const Card& card) {
    return give(text, bytes, fmt::format("{} (virtual)", card.gpu.name));
  });
}
// The virtual driver's: "vgpu-l4" and, as the last byte, the number.
VGPU_EXPORT int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  return asked(device, "", [&](const Settings&, const Card& card) {
    std::array<unsigned char, 16> id{};
    const std::string name = fmt::format("vgpu-{}", card.gpu.id);
    std::memcpy(id.data(), name.data(), std::min(name.size(), id.size() - 1));
    id.back() = static_cast<unsigned char>(reinterpret_cast<std::uintptr_t>(device) - 1);
    std::string written = "GPU-";
    for (std::size_t i = 0; i < id.size(); ++i)
      written += fmt::format("{}{:02x}", i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "", id[i]);
    return give(text, bytes, written);
  });
}

VGPU_EXPORT int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  return asked(device, "clocks", [&](const Settings& settings, const Card& card) {
    if (type == memory) return give(mhz, card.gpu.memory_clock_mhz);
    if (type != sm && type != graphics) return not_supported;
    if (settings.sm_clock_mhz) return give(mhz, *settings.sm_clock_mhz);
    const bool falls = settings.is_throttled && card.gpu.base_clock_mhz.verified();
    return give(mhz, falls ? card.gpu.base_clock_mhz : card.gpu.boost_clock_mhz);
  });
}
VGPU_EXPORT int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  return asked(device, "max_clocks", [&](const Settings&, const Card& card) {
    if (type == memory) return give(mhz, card.gpu.memory_clock_mhz);
    return type == sm || type == graphics ? give(mhz, card.gpu.boost_clock_mhz) : not_supported;
  });
}
VGPU_EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* bits) {
  return asked(device, "reasons", [&](const Settings& settings, const Card&) {
    return driver_major(settings) < first_driver_with_event_reasons ? function_not_found : give_reasons(settings, bits);
  });
}
VGPU_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  return asked(device, "reasons", [&](const Settings& settings, const Card&) { return give_reasons(settings, bits); });
}
VGPU_EXPORT int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  return asked(device, "temperature", [&](const Settings& settings, const Card&) {
    return sensor != 0 ? invalid_argument : give(celsius, settings.temperature_celsius.value_or(idle_celsius));
  });
}

VGPU_EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return asked(device, "power", [&](const Settings& settings, const Card& card) {
    if (settings.power_watts) return give(milliwatts, *settings.power_watts * milliwatts_per_watt);
    return give(milliwatts, card.gpu.board_watts, milliwatts_per_watt / 2);
  });
}
VGPU_EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return limit(device, milliwatts);
}
VGPU_EXPORT int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* milliwatts) {
  return limit(device, milliwatts);
}
VGPU_EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(void* device, unsigned* milliwatts) {
  return asked(device, "limit", [&](const Settings&, const Card& card) {
    return give(milliwatts, card.gpu.board_watts, milliwatts_per_watt);
  });
}
VGPU_EXPORT int nvmlDeviceGetUtilizationRates(void* device, nvmlUtilization* rates) {
  return asked(device, "utilization", [&](const Settings& settings, const Card&) {
    return give(rates, nvmlUtilization{.gpu = settings.utilization_percent.value_or(0), .memory = 0});
  });
}
VGPU_EXPORT int nvmlDeviceGetMemoryInfo(void* device, nvmlMemory* info) {
  return asked(device, "memory", [&](const Settings& settings, const Card& card) {
    const auto total = static_cast<unsigned long long>(card.gpu.memory_gb.value) << 30U;
    unsigned long long used = 0;
    for (const OtherProcess& other : settings.others) used += other.memory_bytes;
    used = std::min(used, total);
    return give(info, nvmlMemory{.total = total, .free = total - used, .used = used});
  });
}
// Who asks is in the list, as with a context on a card, so that nobody takes himself for a stranger unnoticed.
VGPU_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, nvmlProcessInfo* processes) {
  return asked(device, "processes", [&](const Settings& settings, const Card&) -> Answer {
    if (count == nullptr || (*count != 0 && processes == nullptr)) return invalid_argument;
    const auto room = *count;
    *count = static_cast<unsigned>(settings.others.size() + 1);
    if (room < *count) return insufficient_size;
    const auto entry = [](unsigned pid, std::uint64_t bytes) {
      return nvmlProcessInfo{
          .pid = pid, .usedGpuMemory = bytes, .gpuInstanceId = no_instance, .computeInstanceId = no_instance};
    };
    *processes++ = entry(static_cast<unsigned>(getpid()), 0);
    for (const OtherProcess& other : settings.others) *processes++ = entry(other.pid, other.memory_bytes);
    return success;
  });
}

VGPU_EXPORT int nvmlDeviceGetPersistenceMode(void* device, int* mode) {
  return asked(device, "persistence", [&](const Settings& settings, const Card&) {
    return give(mode, settings.persistence.value_or(true) ? 1 : 0);
  });
}
VGPU_EXPORT int nvmlDeviceGetEccMode(void* device, int* current, int* pending) {
  return asked(device, "ecc",
               [&](const Settings& settings, const Card&) { return give_mode(settings.ecc, current, pending); });
}
VGPU_EXPORT int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  return asked(device, "mig",
               [&](const Settings& settings, const Card&) { return give_mode(settings.mig, current, pending); });
}
