// What a device can do. Gates and comparisons ask this, never which device it is.
#pragma once

#include "workflow/device/selector.hpp"

namespace flashmoe::workflow {

enum class Runs { host_code, cuda_code };                    // C++ and Python entries; the project's CUDA kernels
enum class ClockKind { measured, rehearsed, none };          // what a time taken there is; rehearsed: nobody's
enum class CounterKind { exact, hardware, degraded, none };  // degraded: time and bytes stand in for counters

struct Capabilities {
  Runs runs = Runs::host_code;
  ClockKind clock = ClockKind::none;
  CounterKind counters = CounterKind::none;
  bool checks = false;        // every access is looked at: memcheck, initcheck, racecheck, synccheck
  bool schedules = false;     // a call repeats itself to the bit, and other orders of its warps can be asked for
  bool needs_driver = false;  // a driver and a GPU of this machine
  bool is_card = false;       // its own events tell the time, NVML its clocks
};

// As they are now: what may be counted is the machine's to say.
[[nodiscard]] Capabilities capabilities_of(const DeviceSelector& device);

// "exact", ...: as records write it
[[nodiscard]] const char* name_of(CounterKind counters);

}  // namespace flashmoe::workflow
