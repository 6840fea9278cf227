// The part of NVML's documented C ABI that the runtime calls (NVML API Reference Guide), written down here so that
// nothing needs NVIDIA's header to build. tests/vgpu/clients/nvml_client.py compares it with NVIDIA's own bindings.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashmoe::runtime::nvml {

using Code = int;  // nvmlReturn_t
inline constexpr Code success = 0;
inline constexpr Code uninitialized = 1;
inline constexpr Code not_supported = 3;
inline constexpr Code no_permission = 4;
inline constexpr Code not_found = 6;
inline constexpr Code insufficient_size = 7;
inline constexpr Code driver_not_loaded = 9;
inline constexpr Code function_not_found = 13;
inline constexpr Code gpu_is_lost = 15;
inline constexpr Code reset_required = 16;
inline constexpr Code version_mismatch = 18;  // library and kernel module are of two drivers

using DeviceHandle = struct DeviceOpaque*;

enum class Clock : int { sm = 1, memory = 2 };           // nvmlClockType_t
enum class TemperatureSensor : int { gpu = 0 };          // nvmlTemperatureSensors_t
inline constexpr std::size_t name_bytes = 96;            // NVML_DEVICE_NAME_V2_BUFFER_SIZE
inline constexpr std::size_t uuid_bytes = 96;            // NVML_DEVICE_UUID_V2_BUFFER_SIZE
inline constexpr std::size_t driver_version_bytes = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

// nvmlClocksEventReasons, before driver 535 nvmlClocksThrottleReasons; the bits are the same.
inline constexpr std::uint64_t reason_idle = 0x1;
inline constexpr std::uint64_t reason_application_clocks = 0x2;
inline constexpr std::uint64_t reason_software_power_cap = 0x4;
inline constexpr std::uint64_t reason_hardware_slowdown = 0x8;
inline constexpr std::uint64_t reason_sync_boost = 0x10;
inline constexpr std::uint64_t reason_software_thermal = 0x20;
inline constexpr std::uint64_t reason_hardware_thermal = 0x40;
inline constexpr std::uint64_t reason_power_brake = 0x80;
inline constexpr std::uint64_t reason_display_clocks = 0x100;
inline constexpr std::uint64_t reason_board_limit = 0x200;  // these two of newer drivers
inline constexpr std::uint64_t reason_reliability = 0x400;

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
struct Utilization {  // nvmlUtilization_t
  unsigned gpu, memory;
};
inline constexpr unsigned long long memory_not_available = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE
struct ProcessInfo {                                               // nvmlProcessInfo_t of the _v3 functions
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

// Null where the library does not export it.
struct Functions {
  Code (*init)();
  Code (*shutdown)();
  const char* (*error_text)(Code code);
  Code (*driver_version)(char* text, unsigned bytes);
  Code (*by_pci_bus_id)(const char* bus_id, DeviceHandle* device);
  Code (*name)(DeviceHandle device, char* text, unsigned bytes);
  Code (*uuid)(DeviceHandle device, char* text, unsigned bytes);
  Code (*clock)(DeviceHandle device, Clock clock, unsigned* mhz);
  Code (*max_clock)(DeviceHandle device, Clock clock, unsigned* mhz);
  Code (*clock_event_reasons)(DeviceHandle device, unsigned long long* reasons);
  Code (*clock_throttle_reasons)(DeviceHandle device, unsigned long long* reasons);
  Code (*temperature)(DeviceHandle device, TemperatureSensor sensor, unsigned* celsius);
  Code (*power)(DeviceHandle device, unsigned* milliwatts);
  Code (*enforced_power_limit)(DeviceHandle device, unsigned* milliwatts);
  Code (*power_management_limit)(DeviceHandle device, unsigned* milliwatts);
  Code (*default_power_limit)(DeviceHandle device, unsigned* milliwatts);
  Code (*utilization)(DeviceHandle device, Utilization* rates);
  Code (*memory)(DeviceHandle device, Memory* memory);
  Code (*compute_processes)(DeviceHandle device, unsigned* count, ProcessInfo* processes);
  Code (*persistence_mode)(DeviceHandle device, int* mode);
  Code (*ecc_mode)(DeviceHandle device, int* current, int* pending);
  Code (*mig_mode)(DeviceHandle device, unsigned* current, unsigned* pending);
};

}  // namespace flashmoe::runtime::nvml
