// Our declarations against the toolkit's headers, and the list of names against its library: fails without a CUDA 13.0
// toolkit.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "images/exported_names.hpp"

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
namespace ours {
#include "vgpu/cudart/runtime_abi.hpp"
}

namespace {

TEST(RuntimeAbi, IsTheToolkitOfTheList) {
  EXPECT_EQ(CUDART_VERSION, 13000);
}

TEST(RuntimeAbi, EveryErrorHasItsValue) {
#define VGPU_RUNTIME_ERROR(name, value) EXPECT_EQ(static_cast<int>(::name), value) << #name;
#include "vgpu/cudart/errors.def"
#undef VGPU_RUNTIME_ERROR
}

TEST(RuntimeAbi, EnumeratorsHaveTheirValues) {
  EXPECT_EQ(static_cast<int>(ours::cudaMemcpyDefault), static_cast<int>(::cudaMemcpyDefault));
  EXPECT_EQ(static_cast<int>(ours::cudaMemcpyDeviceToHost), static_cast<int>(::cudaMemcpyDeviceToHost));
  EXPECT_EQ(static_cast<int>(ours::cudaMemoryTypeManaged), static_cast<int>(::cudaMemoryTypeManaged));
  EXPECT_EQ(static_cast<int>(ours::cudaMemoryTypeDevice), static_cast<int>(::cudaMemoryTypeDevice));
}

// Attributes are handed to the driver by their numbers.
TEST(RuntimeAbi, AttributesHaveTheDriversNumbers) {
  EXPECT_EQ(static_cast<int>(::cudaDevAttrMaxThreadsPerBlock), ours::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_EQ(static_cast<int>(::cudaDevAttrMemoryPoolsSupported), ours::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  EXPECT_EQ(static_cast<int>(::cudaFuncAttributeMaxDynamicSharedMemorySize),
            ours::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(static_cast<int>(::cudaFuncAttributeNonPortableClusterSizeAllowed),
            ours::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
}

#define EXPECT_SAME_PLACE(type, member) EXPECT_EQ(offsetof(ours::type, member), offsetof(::type, member)) << #member

TEST(RuntimeAbi, StructuresLieAlike) {
  EXPECT_EQ(sizeof(ours::dim3), sizeof(::dim3));
  EXPECT_EQ(sizeof(ours::cudaDeviceProp), sizeof(::cudaDeviceProp));
  EXPECT_SAME_PLACE(cudaDeviceProp, uuid);
  EXPECT_SAME_PLACE(cudaDeviceProp, totalGlobalMem);
  EXPECT_SAME_PLACE(cudaDeviceProp, maxGridSize);
  EXPECT_SAME_PLACE(cudaDeviceProp, multiProcessorCount);
  EXPECT_SAME_PLACE(cudaDeviceProp, surfaceAlignment);
  EXPECT_SAME_PLACE(cudaDeviceProp, unifiedAddressing);
  EXPECT_SAME_PLACE(cudaDeviceProp, l2CacheSize);
  EXPECT_SAME_PLACE(cudaDeviceProp, sharedMemPerMultiprocessor);
  EXPECT_SAME_PLACE(cudaDeviceProp, cooperativeLaunch);
  EXPECT_SAME_PLACE(cudaDeviceProp, sharedMemPerBlockOptin);
  EXPECT_SAME_PLACE(cudaDeviceProp, reservedSharedMemPerBlock);
  EXPECT_SAME_PLACE(cudaDeviceProp, memoryPoolsSupported);
  EXPECT_SAME_PLACE(cudaDeviceProp, clusterLaunch);
  EXPECT_SAME_PLACE(cudaDeviceProp, hostNumaMultinodeIpcSupported);
  EXPECT_SAME_PLACE(cudaFuncAttributes, numRegs);
  EXPECT_SAME_PLACE(cudaFuncAttributes, nonPortableClusterSizeAllowed);
  EXPECT_SAME_PLACE(cudaPointerAttributes, hostPointer);
  EXPECT_EQ(sizeof(ours::cudaMemcpy3DParms), sizeof(::cudaMemcpy3DParms));
  EXPECT_SAME_PLACE(cudaMemcpy3DParms, dstPtr);
  EXPECT_SAME_PLACE(cudaMemcpy3DParms, kind);
  EXPECT_EQ(sizeof(ours::cudaChannelFormatDesc), sizeof(::cudaChannelFormatDesc));
  EXPECT_EQ(static_cast<int>(ours::cudaChannelFormatKindFloat), static_cast<int>(::cudaChannelFormatKindFloat));
  EXPECT_EQ(sizeof(ours::cudaResourceDesc), sizeof(::cudaResourceDesc));
  EXPECT_SAME_PLACE(cudaResourceDesc, res.linear.sizeInBytes);
  EXPECT_SAME_PLACE(cudaResourceDesc, res.pitch2D.pitchInBytes);
  EXPECT_SAME_PLACE(cudaResourceDesc, flags);
  EXPECT_EQ(static_cast<int>(::cudaResourceTypeLinear), ours::CU_RESOURCE_TYPE_LINEAR) << "handed on";
  EXPECT_EQ(static_cast<int>(::cudaResourceTypePitch2D), ours::CU_RESOURCE_TYPE_PITCH2D) << "handed on";
  EXPECT_EQ(static_cast<int>(::cudaAddressModeBorder), ours::CU_TR_ADDRESS_MODE_BORDER) << "handed on";
  EXPECT_EQ(static_cast<int>(::cudaFilterModeLinear), ours::CU_TR_FILTER_MODE_LINEAR) << "handed on";
  EXPECT_EQ(static_cast<int>(::cudaReadModeElementType), 0);
  EXPECT_EQ(sizeof(ours::cudaTextureDesc), sizeof(::cudaTextureDesc));
  EXPECT_SAME_PLACE(cudaTextureDesc, borderColor);
  EXPECT_SAME_PLACE(cudaTextureDesc, seamlessCubemap);
  EXPECT_EQ(sizeof(ours::cudaKernelNodeParams), sizeof(::cudaKernelNodeParams));
  EXPECT_SAME_PLACE(cudaKernelNodeParams, kernelParams);
  EXPECT_EQ(sizeof(ours::CUDA_MEMSET_NODE_PARAMS), sizeof(::cudaMemsetParams)) << "handed on as it is";
  EXPECT_EQ(offsetof(ours::CUDA_MEMSET_NODE_PARAMS, height), offsetof(::cudaMemsetParams, height));
  EXPECT_EQ(sizeof(ours::CUDA_HOST_NODE_PARAMS), sizeof(::cudaHostNodeParams)) << "handed on as it is";
  EXPECT_EQ(sizeof(ours::cudaFuncAttributes), sizeof(::cudaFuncAttributes));
  EXPECT_EQ(sizeof(ours::cudaPointerAttributes), sizeof(::cudaPointerAttributes));
  EXPECT_EQ(sizeof(ours::cudaLaunchConfig_t), sizeof(::cudaLaunchConfig_t));
  EXPECT_EQ(offsetof(ours::cudaLaunchConfig_t, numAttrs), offsetof(::cudaLaunchConfig_t, numAttrs));
  EXPECT_EQ(sizeof(::cudaLaunchAttribute), sizeof(ours::CUlaunchAttribute)) << "handed on as it is";
  EXPECT_EQ(sizeof(::cudaMemLocation), sizeof(std::uint64_t)) << "taken as one number";
}

std::set<std::string> exported(const std::string& library) {
  return flashmoe::exported_names(library, [](std::string_view name) { return name.find("cuda") < 3; });
}

TEST(RuntimeAbi, NamesAreThoseOfTheToolkitsLibrary) {
  std::set<std::string> listed;
#define VGPU_RUNTIME_NAME(name) listed.emplace(#name);
#include "vgpu/cudart/names.def"
#undef VGPU_RUNTIME_NAME
  const std::set<std::string> theirs = exported(REAL_CUDART);
  EXPECT_GT(theirs.size(), 400U);
  EXPECT_EQ(listed, theirs);
  EXPECT_EQ(exported(OUR_CUDART), theirs);
}

}  // namespace
#else
TEST(RuntimeAbi, NeedsTheToolkit) {
  FAIL() << "no cuda_runtime_api.h; set CUDA_HOME";
}
#endif
