// Our declarations against the toolkit's headers: fails without a CUDA 13.0 toolkit that has CUPTI.
#include "runtime/cupti_abi.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#if __has_include(<cupti_range_profiler.h>)
#include <cuda.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <cupti_version.h>

namespace flashmoe::runtime {
namespace {

#define EXPECT_PLACE(ours, our_field, theirs, their_field)                      \
  EXPECT_EQ(offsetof(cupti::ours, our_field), offsetof(::theirs, their_field)); \
  EXPECT_EQ(sizeof(cupti::ours::our_field), sizeof(::theirs::their_field))

// The last field, up to which the size is told, lies where theirs does.
#define EXPECT_SIZE(ours, last, theirs)                        \
  EXPECT_EQ(sizeof(cupti::ours), sizeof(::theirs)) << #theirs; \
  EXPECT_EQ(cupti::sized(&cupti::ours::last).struct_size, theirs##_STRUCT_SIZE) << #theirs

TEST(CuptiAbi, SizesAreTheirs) {
  EXPECT_SIZE(HostInitialize, host, CUpti_Profiler_Host_Initialize_Params);
  EXPECT_SIZE(HostDeinitialize, host, CUpti_Profiler_Host_Deinitialize_Params);
  EXPECT_SIZE(HostAddMetrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params);
  EXPECT_SIZE(HostConfigSize, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params);
  EXPECT_SIZE(HostConfig, config, CUpti_Profiler_Host_GetConfigImage_Params);
  EXPECT_SIZE(HostPasses, passes, CUpti_Profiler_Host_GetNumOfPasses_Params);
  EXPECT_SIZE(HostEvaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
  EXPECT_SIZE(ProfilerInitialize, reserved, CUpti_Profiler_Initialize_Params);
  EXPECT_SIZE(CounterAvailability, image, CUpti_Profiler_GetCounterAvailability_Params);
  EXPECT_SIZE(ChipName, chip, CUpti_Device_GetChipName_Params);
  EXPECT_SIZE(RangeEnable, profiler, CUpti_RangeProfiler_Enable_Params);
  EXPECT_SIZE(RangeCall, profiler, CUpti_RangeProfiler_Disable_Params);
  EXPECT_SIZE(RangeCall, profiler, CUpti_RangeProfiler_Start_Params);
  EXPECT_SIZE(RangeStop, all_passes_are_done, CUpti_RangeProfiler_Stop_Params);
  EXPECT_SIZE(RangeDecode, dropped, CUpti_RangeProfiler_DecodeData_Params);
  EXPECT_SIZE(RangeConfigure, target_nesting_level, CUpti_RangeProfiler_SetConfig_Params);
  EXPECT_SIZE(CounterDataSize, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params);
  EXPECT_SIZE(CounterDataInitialize, counter_data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
  EXPECT_SIZE(CounterDataInfo, ranges, CUpti_RangeProfiler_GetCounterDataInfo_Params);
}

TEST(CuptiAbi, FieldsLieWhereTheirsDo) {
  EXPECT_PLACE(HostInitialize, type, CUpti_Profiler_Host_Initialize_Params, profilerType);
  EXPECT_PLACE(HostInitialize, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
  EXPECT_PLACE(HostInitialize, availability, CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
  EXPECT_PLACE(HostAddMetrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
  EXPECT_PLACE(HostAddMetrics, metrics, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
  EXPECT_PLACE(HostConfig, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
  EXPECT_PLACE(HostPasses, bytes, CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize);
  EXPECT_PLACE(HostPasses, config, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
  EXPECT_PLACE(HostEvaluate, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject);
  EXPECT_PLACE(HostEvaluate, counter_data, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
  EXPECT_PLACE(HostEvaluate, counter_data_bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize);
  EXPECT_PLACE(HostEvaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
  EXPECT_PLACE(HostEvaluate, metrics, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
  EXPECT_PLACE(HostEvaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
  EXPECT_PLACE(CounterAvailability, context, CUpti_Profiler_GetCounterAvailability_Params, ctx);
  EXPECT_PLACE(CounterAvailability, bytes, CUpti_Profiler_GetCounterAvailability_Params, counterAvailabilityImageSize);
  EXPECT_PLACE(ChipName, device, CUpti_Device_GetChipName_Params, deviceIndex);
  EXPECT_PLACE(RangeEnable, context, CUpti_RangeProfiler_Enable_Params, ctx);
  EXPECT_PLACE(RangeStop, pass, CUpti_RangeProfiler_Stop_Params, passIndex);
  EXPECT_PLACE(RangeStop, nesting_level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel);
  EXPECT_PLACE(RangeConfigure, profiler, CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject);
  EXPECT_PLACE(RangeConfigure, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
  EXPECT_PLACE(RangeConfigure, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
  EXPECT_PLACE(RangeConfigure, counter_data_bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
  EXPECT_PLACE(RangeConfigure, counter_data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
  EXPECT_PLACE(RangeConfigure, range, CUpti_RangeProfiler_SetConfig_Params, range);
  EXPECT_PLACE(RangeConfigure, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
  EXPECT_PLACE(RangeConfigure, most_ranges_a_pass, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
  EXPECT_PLACE(RangeConfigure, nesting_levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
  EXPECT_PLACE(RangeConfigure, least_nesting_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
  EXPECT_PLACE(RangeConfigure, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
  EXPECT_PLACE(CounterDataSize, metrics, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
  EXPECT_PLACE(CounterDataSize, count, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
  EXPECT_PLACE(CounterDataSize, most_ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
  EXPECT_PLACE(CounterDataSize, most_tree_nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
  EXPECT_PLACE(CounterDataInitialize, bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize);
  EXPECT_PLACE(CounterDataInfo, counter_data, CUpti_RangeProfiler_GetCounterDataInfo_Params, pCounterDataImage);
  EXPECT_PLACE(CounterDataInfo, bytes, CUpti_RangeProfiler_GetCounterDataInfo_Params, counterDataImageSize);
}

TEST(CuptiAbi, ValuesAreTheirs) {
  EXPECT_EQ(static_cast<int>(cupti::ProfilerType::range_profiler), CUPTI_PROFILER_TYPE_RANGE_PROFILER);
  EXPECT_EQ(static_cast<int>(cupti::Range::automatic), CUPTI_AutoRange);
  EXPECT_EQ(static_cast<int>(cupti::Replay::kernel), CUPTI_KernelReplay);
  EXPECT_EQ(cupti::success, CUPTI_SUCCESS);
  EXPECT_EQ(cupti::insufficient_privileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  EXPECT_EQ(cupti::virtualized_device, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
  EXPECT_EQ(cupti::virtualized_device_insufficient_privileges, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
  EXPECT_GE(CUPTI_API_VERSION, cupti::version_of_cuda_12_8);
  EXPECT_LT(CUPTI_API_VERSION, cupti::version_of_cuda_14_0);
}

}  // namespace
}  // namespace flashmoe::runtime
#else
TEST(CuptiAbi, NeedsTheToolkit) {
  FAIL() << "no cupti_range_profiler.h: install the CUDA 13.0 toolkit with CUPTI, or set CUDA_HOME";
}
#endif
