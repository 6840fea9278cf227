// A library that is called as CUPTI is and counts nothing: it says a version (PRETENDED_VERSION), remembers the order
// of calls, and answers as it is told to. What the real one does on a card no test here can show.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/cupti_abi.hpp"

using namespace flashmoe::runtime;

extern "C" {

// Set and read by the test.
__attribute__((visibility("default"))) char pretended_calls[1024] = "";
__attribute__((visibility("default"))) int pretended_locked = 0;
__attribute__((visibility("default"))) int pretended_all_passes = 1;
__attribute__((visibility("default"))) int pretended_dropped = 0;

#define PRETENDED extern "C" __attribute__((visibility("default"))) int

}  // extern "C"

namespace {

void called(const char* name) {
  const std::string more = std::string(*pretended_calls != '\0' ? " " : "") + name;
  std::strncat(pretended_calls, more.c_str(), sizeof pretended_calls - std::strlen(pretended_calls) - 1);
}

constexpr int invalid_parameter = 1;
constexpr std::size_t config_bytes = 16, counter_data_bytes = 32, availability_bytes = 8;
std::size_t most_ranges = 0;

}  // namespace

PRETENDED cuptiGetVersion(std::uint32_t* version) {
  *version = PRETENDED_VERSION;
  return 0;
}
PRETENDED cuptiGetResultString(int, const char** text) {
  *text = "pretended";
  return 0;
}
PRETENDED cuptiProfilerHostInitialize(cupti::HostInitialize* params) {
  params->host = reinterpret_cast<cupti::HostObject*>(params);
  return std::strcmp(params->chip, "AD104") == 0 && params->availability != nullptr ? 0 : invalid_parameter;
}
PRETENDED cuptiProfilerHostDeinitialize(cupti::HostDeinitialize*) {
  return 0;
}
PRETENDED cuptiProfilerHostConfigAddMetrics(cupti::HostAddMetrics* params) {
  const auto unknown = [](const char* name) { return std::strncmp(name, "unknown", 7) == 0; };
  return std::any_of(params->metrics, params->metrics + params->count, unknown) ? invalid_parameter : 0;
}
PRETENDED cuptiProfilerHostGetConfigImageSize(cupti::HostConfigSize* params) {
  params->bytes = config_bytes;
  return 0;
}
PRETENDED cuptiProfilerHostGetConfigImage(cupti::HostConfig* params) {
  return params->bytes == config_bytes ? 0 : invalid_parameter;
}
PRETENDED cuptiProfilerHostGetNumOfPasses(cupti::HostPasses* params) {
  params->passes = 3;
  return 0;
}
PRETENDED cuptiProfilerHostEvaluateToGpuValues(cupti::HostEvaluate* params) {
  for (std::size_t i = 0; i < params->count; ++i)
    params->values[i] = std::strcmp(params->metrics[i], "no_number") == 0
                            ? std::numeric_limits<double>::quiet_NaN()
                            : static_cast<double>(100 * params->range + i);
  return params->counter_data_bytes == counter_data_bytes ? 0 : invalid_parameter;
}
PRETENDED cuptiProfilerInitialize(cupti::ProfilerInitialize*) {
  called("initialize");
  return 0;
}
PRETENDED cuptiProfilerGetCounterAvailability(cupti::CounterAvailability* params) {
  params->bytes = availability_bytes;
  return params->context != nullptr ? 0 : invalid_parameter;
}
PRETENDED cuptiDeviceGetChipName(cupti::ChipName* params) {
  params->chip = "AD104";
  return 0;
}
PRETENDED cuptiRangeProfilerEnable(cupti::RangeEnable* params) {
  called("enable");
  params->profiler = reinterpret_cast<cupti::RangeObject*>(&most_ranges);
  return pretended_locked != 0 ? cupti::insufficient_privileges : 0;
}
PRETENDED cuptiRangeProfilerDisable(cupti::RangeCall*) {
  called("disable");
  return 0;
}
PRETENDED cuptiRangeProfilerStart(cupti::RangeCall*) {
  called("start");
  return 0;
}
PRETENDED cuptiRangeProfilerStop(cupti::RangeStop* params) {
  called("stop");
  params->all_passes_are_done = static_cast<std::uint8_t>(pretended_all_passes);
  return 0;
}
PRETENDED cuptiRangeProfilerDecodeData(cupti::RangeDecode* params) {
  called("decode");
  params->dropped = static_cast<std::size_t>(pretended_dropped);
  return 0;
}
PRETENDED cuptiRangeProfilerSetConfig(cupti::RangeConfigure* params) {
  called("configure");
  most_ranges = params->most_ranges_a_pass;
  const bool right = params->config_bytes == config_bytes && params->counter_data_bytes == counter_data_bytes &&
                     params->range == cupti::Range::automatic && params->replay == cupti::Replay::kernel &&
                     params->nesting_levels == 1;
  return right ? 0 : invalid_parameter;
}
PRETENDED cuptiRangeProfilerGetCounterDataSize(cupti::CounterDataSize* params) {
  params->bytes = counter_data_bytes;
  return params->most_tree_nodes >= params->most_ranges ? 0 : invalid_parameter;
}
PRETENDED cuptiRangeProfilerCounterDataImageInitialize(cupti::CounterDataInitialize* params) {
  called("clear");
  return params->bytes == counter_data_bytes ? 0 : invalid_parameter;
}
PRETENDED cuptiRangeProfilerGetCounterDataInfo(cupti::CounterDataInfo* params) {
  params->ranges = most_ranges;
  return 0;
}
