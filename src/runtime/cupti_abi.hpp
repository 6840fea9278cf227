// The part of CUPTI's documented C ABI that counting needs: the profiler's host half, which makes plans and needs no
// GPU, and the range profiler. Written down here so that nothing needs a CUDA toolkit to build; a test compares it with
// the toolkit's headers. The structs of CUDA 12.8 and 13.0 are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda_abi.hpp"

namespace flashmoe::runtime::cupti {

using Code = int;  // CUptiResult
inline constexpr Code success = 0;
inline constexpr Code virtualized_device = 33;
inline constexpr Code insufficient_privileges = 35;
inline constexpr Code virtualized_device_insufficient_privileges = 40;

// As cuptiGetVersion says it: a count up to CUDA 12.9, from 13.0 on 130000 for 13.0.
inline constexpr std::uint32_t version_of_cuda_12_8 = 26;
inline constexpr std::uint32_t version_of_cuda_14_0 = 140000;

using HostObject = struct HostObjectOpaque;
using RangeObject = struct RangeObjectOpaque;

enum class ProfilerType : int { range_profiler = 0 };
enum class Range : int { automatic = 1 };  // one range for each launch
enum class Replay : int { kernel = 2 };    // CUPTI repeats a launch, and restores memory in between

// Every struct begins with its own size up to the last field, by which the library knows what its caller knows.
struct HostInitialize {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  ProfilerType type = ProfilerType::range_profiler;
  const char* chip = nullptr;
  const std::uint8_t* availability = nullptr;
  HostObject* host = nullptr;  // out
};
struct HostDeinitialize {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  HostObject* host = nullptr;
};
struct HostAddMetrics {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  HostObject* host = nullptr;
  const char** metrics = nullptr;
  std::size_t count = 0;
};
struct HostConfigSize {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  HostObject* host = nullptr;
  std::size_t bytes = 0;  // out
};
struct HostConfig {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  HostObject* host = nullptr;
  std::size_t bytes = 0;
  std::uint8_t* config = nullptr;
};
struct HostPasses {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  std::size_t bytes = 0;
  std::uint8_t* config = nullptr;
  std::size_t passes = 0;  // out
};
struct HostEvaluate {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  HostObject* host = nullptr;
  const std::uint8_t* counter_data = nullptr;
  std::size_t counter_data_bytes = 0;
  std::size_t range = 0;
  const char** metrics = nullptr;
  std::size_t count = 0;
  double* values = nullptr;
};

struct ProfilerInitialize {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
};
struct CounterAvailability {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  cuda::ContextHandle context = nullptr;
  std::size_t bytes = 0;  // in and out
  std::uint8_t* image = nullptr;
};
struct ChipName {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  std::size_t device = 0;
  const char* chip = nullptr;  // out
};

struct RangeEnable {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  cuda::ContextHandle context = nullptr;
  RangeObject* profiler = nullptr;  // out
};
struct RangeCall {  // Disable, Start
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  RangeObject* profiler = nullptr;
};
struct RangeStop {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  RangeObject* profiler = nullptr;
  std::size_t pass = 0;                  // out
  std::size_t nesting_level = 0;         // out
  std::uint8_t all_passes_are_done = 0;  // out
};
struct RangeDecode {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  RangeObject* profiler = nullptr;
  std::size_t dropped = 0;  // out: ranges
};
struct RangeConfigure {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  RangeObject* profiler = nullptr;
  std::size_t config_bytes = 0;
  const std::uint8_t* config = nullptr;
  std::size_t counter_data_bytes = 0;
  std::uint8_t* counter_data = nullptr;
  Range range = Range::automatic;
  Replay replay = Replay::kernel;
  std::size_t most_ranges_a_pass = 0;
  std::uint16_t nesting_levels = 0;
  std::uint16_t least_nesting_level = 0;
  std::size_t pass = 0;
  std::uint16_t target_nesting_level = 0;
};
struct CounterDataSize {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  RangeObject* profiler = nullptr;
  const char** metrics = nullptr;
  std::size_t count = 0;
  std::size_t most_ranges = 0;
  std::uint32_t most_tree_nodes = 0;
  std::size_t bytes = 0;  // out
};
struct CounterDataInitialize {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  RangeObject* profiler = nullptr;
  std::size_t bytes = 0;
  std::uint8_t* counter_data = nullptr;
};
struct CounterDataInfo {
  std::size_t struct_size = 0;
  void* reserved = nullptr;
  const std::uint8_t* counter_data = nullptr;
  std::size_t bytes = 0;
  std::size_t ranges = 0;  // out
};

struct Functions {
  Code (*version)(std::uint32_t* version);
  Code (*result_text)(Code code, const char** text);
  Code (*host_initialize)(HostInitialize* params);
  Code (*host_deinitialize)(HostDeinitialize* params);
  Code (*host_add_metrics)(HostAddMetrics* params);
  Code (*host_config_size)(HostConfigSize* params);
  Code (*host_config)(HostConfig* params);
  Code (*host_passes)(HostPasses* params);
  Code (*host_evaluate)(HostEvaluate* params);
  Code (*profiler_initialize)(ProfilerInitialize* params);
  Code (*counter_availability)(CounterAvailability* params);
  Code (*chip_name)(ChipName* params);
  Code (*range_enable)(RangeEnable* params);
  Code (*range_disable)(RangeCall* params);
  Code (*range_start)(RangeCall* params);
  Code (*range_stop)(RangeStop* params);
  Code (*range_decode)(RangeDecode* params);
  Code (*range_configure)(RangeConfigure* params);
  Code (*counter_data_size)(CounterDataSize* params);
  Code (*counter_data_initialize)(CounterDataInitialize* params);
  Code (*counter_data_info)(CounterDataInfo* params);
};

// Empty parameters of the size that the library expects: `last` is the last field.
template <class Params, class Field>
Params sized(Field Params::*last) {
  Params params{};
  const auto* const end = reinterpret_cast<const char*>(&(params.*last) + 1);
  params.struct_size = static_cast<std::size_t>(end - reinterpret_cast<const char*>(&params));
  return params;
}

}  // namespace flashmoe::runtime::cupti
