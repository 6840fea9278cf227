// Our occupancy against the toolkit's own calculation, over every architecture we know and many kernels.
#include <gtest/gtest.h>

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define FLASHMOE_HAVE_CUDA_OCCUPANCY 1
#endif

#include <climits>

#include "devices/occupancy.hpp"

namespace flashmoe {
namespace {

#ifdef FLASHMOE_HAVE_CUDA_OCCUPANCY

cudaOccDeviceProp properties_of(const Architecture& limits) {
  cudaOccDeviceProp device;
  device.computeMajor = limits.compute_major;
  device.computeMinor = limits.compute_minor;
  device.maxThreadsPerBlock = limits.max_threads_per_cta;
  device.maxThreadsPerMultiprocessor = limits.max_warps_per_sm * limits.threads_per_warp;
  device.regsPerBlock = limits.registers_per_cta;
  device.regsPerMultiprocessor = limits.registers_per_sm;
  device.warpSize = limits.threads_per_warp;
  device.sharedMemPerBlock = static_cast<std::size_t>(limits.shared_bytes_per_cta_default);
  device.sharedMemPerMultiprocessor = static_cast<std::size_t>(limits.shared_bytes_per_sm);
  device.numSms = 1;
  device.sharedMemPerBlockOptin = static_cast<std::size_t>(limits.shared_bytes_per_cta_optin);
  device.reservedSharedMemPerBlock = static_cast<std::size_t>(limits.shared_bytes_reserved_per_cta);
  return device;
}

int toolkit_answer(const Architecture& limits, const KernelResources& kernel) {
  const cudaOccDeviceProp device = properties_of(limits);
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = INT_MAX;
  function.numRegs = kernel.registers;
  function.sharedSizeBytes = static_cast<std::size_t>(kernel.static_shared_bytes);
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = static_cast<std::size_t>(kernel.dynamic_shared_bytes);
  function.numBlockBarriers = kernel.barriers;
  const cudaOccDeviceState state;
  cudaOccResult result{};
  const auto status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, kernel.threads,
                                                              static_cast<std::size_t>(kernel.dynamic_shared_bytes));
  EXPECT_EQ(status, CUDA_OCC_SUCCESS) << limits.name;
  return result.activeBlocksPerMultiprocessor;
}

TEST(OccupancyAgainstToolkit, EveryCombinationAgrees) {
  int compared = 0;
  int launchable = 0;
  for (const Architecture& limits : all_architectures())
    for (int threads : {1, 31, 32, 33, 64, 96, 128, 160, 224, 256, 384, 512, 640, 768, 1000, 1024, 1025})
      for (int registers : {0, 1, 8, 16, 24, 31, 32, 33, 40, 48, 56, 63, 64, 72, 80, 96, 127, 128, 168, 200, 254, 255})
        for (std::int64_t fixed : {0, 4, 1024, 16 * 1024 + 4, 48 * 1024})
          for (std::int64_t dynamic :
               {0, 128, 8 * 1024, 33 * 1024, 51 * 1024, 99 * 1024, 100 * 1024, 163 * 1024, 227 * 1024})
            for (int barriers : {0, 1, 4, 16}) {
              const KernelResources kernel{registers, threads, fixed, dynamic, barriers};
              const int ours = occupancy(limits, kernel).ctas_per_sm;
              ASSERT_EQ(ours, toolkit_answer(limits, kernel))
                  << limits.name << " threads " << threads << " registers " << registers << " static " << fixed
                  << " dynamic " << dynamic << " barriers " << barriers;
              ++compared;
              launchable += ours > 0 ? 1 : 0;
            }
  EXPECT_GT(compared, 100000);
  EXPECT_GT(launchable, compared / 4);
}

// The header's own tables, asked one by one.
TEST(OccupancyAgainstToolkit, ArchitectureTablesAgree) {
  for (const Architecture& limits : all_architectures()) {
    const cudaOccDeviceProp device = properties_of(limits);
    int value = 0;
    ASSERT_EQ(cudaOccMaxBlocksPerMultiprocessor(&value, &device), CUDA_OCC_SUCCESS);
    EXPECT_EQ(value, limits.max_ctas_per_sm) << limits.name;
    ASSERT_EQ(cudaOccSMemAllocationGranularity(&value, &device), CUDA_OCC_SUCCESS);
    EXPECT_EQ(value, limits.shared_bytes_granularity) << limits.name;
    ASSERT_EQ(cudaOccRegAllocationGranularity(&value, &device), CUDA_OCC_SUCCESS);
    EXPECT_EQ(value, limits.register_granularity_per_warp) << limits.name;
    ASSERT_EQ(cudaOccSubPartitionsPerMultiprocessor(&value, &device), CUDA_OCC_SUCCESS);
    EXPECT_EQ(value, limits.sub_partitions_per_sm) << limits.name;
    // The largest shared memory the header knows for this architecture is ours: one byte more is refused.
    std::size_t bytes = static_cast<std::size_t>(limits.shared_bytes_per_sm);
    EXPECT_EQ(cudaOccAlignUpShmemSizeVoltaPlus(&bytes, &device), CUDA_OCC_SUCCESS) << limits.name;
    EXPECT_EQ(bytes, static_cast<std::size_t>(limits.shared_bytes_per_sm));
    bytes = static_cast<std::size_t>(limits.shared_bytes_per_sm) + 1;
    EXPECT_NE(cudaOccAlignUpShmemSizeVoltaPlus(&bytes, &device), CUDA_OCC_SUCCESS) << limits.name;
  }
}

#else

TEST(OccupancyAgainstToolkit, NeedsTheToolkitsHeader) {
  FAIL() << "cuda_occupancy.h was not found: configure with a CUDA toolkit on PATH or in /usr/local/cuda";
}

#endif

}  // namespace
}  // namespace flashmoe
