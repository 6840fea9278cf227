// The virtual devices of the process: which GPU they are, their memory, how launches are watched. VGPU_DEVICE chooses
// the GPU (l4 when unset), VGPU_COUNT how many there are of it (1 when unset), which share one memory; everything is
// read once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "devices/device.hpp"
#include "vgpu/exec/state.hpp"
#include "vgpu/memory/device_memory.hpp"
#include "vgpu/observe/counters/sample.hpp"

namespace flashmoe::vgpu::driver {

// What the environment asks for: VGPU_CHECK=memcheck,initcheck,racecheck,synccheck,leftovers|all|none, VGPU_REPORT=file
// (one JSON object a line with the counters and findings of a launch), VGPU_COUNTERS=0, VGPU_PATHS=1,
// VGPU_CLOCK=lower-bound|predicted, VGPU_SAMPLE=CTAs or percent of them, VGPU_SEED=n,
// VGPU_SCHEDULE=natural|adversarial, VGPU_BUDGET=warp instructions.
struct Watching {
  bool memcheck = false, initcheck = false, racecheck = false, synccheck = false;
  // Not one of all: programs may keep what they like, a function of its inputs may not (leftovers.hpp).
  bool leftovers = false;
  std::string report{};
  bool counters = true;                         // into the report, too; they cost more than the run itself
  bool paths = false;                           // into the report, too: which way warps went
  std::optional<observe::SampleSize> sample{};  // counters of some CTAs; without checks, paths and predictions only
  bool predicted_clock = false;
  exec::Schedule schedule{};
  std::uint64_t budget = 0;  // when the driver started; 0: exec's own
  [[nodiscard]] bool checks() const { return memcheck || initcheck || racecheck || synccheck; }
  // Observed runs have one host thread and tell everything; else they are fast.
  [[nodiscard]] bool observed() const { return checks() || counts(); }
  [[nodiscard]] bool counts() const { return predicted_clock || (tells() && (counters || paths || sample)); }
  [[nodiscard]] bool tells() const { return !report.empty(); }  // of fast runs: that they were
  [[nodiscard]] bool notices() const { return observed() || tells(); }
};

struct Machine {
  std::size_t count = 1;
  Gpu gpu{};
  Architecture architecture{};
  std::unique_ptr<memory::DeviceMemory> memory{};
  Watching watching{};
  [[nodiscard]] int sm() const { return architecture.sm(); }
  [[nodiscard]] std::uint64_t memory_bytes() const { return static_cast<std::uint64_t>(gpu.memory_gb.value) << 30U; }
};

// Warp instructions of the next launch; 0: exec's own. Who has set a budget may set another one between launches.
[[nodiscard]] std::uint64_t budget_now(const Watching& watching);

// What cuDriverGetVersion answers: 13000, or an older driver's number that VGPU_DRIVER_VERSION asks for.
[[nodiscard]] Result<int> driver_version();

// The GPU that VGPU_DEVICE names, known or not.
[[nodiscard]] std::string gpu_id();

// Made at the first cuInit. An environment that cannot be followed is an error with a text, not a default.
[[nodiscard]] Result<Machine*> machine();

}  // namespace flashmoe::vgpu::driver
