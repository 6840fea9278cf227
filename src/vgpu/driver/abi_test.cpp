// Our declarations against the toolkit's cuda.h, and the list of symbols against its stub library: fails without a
// CUDA 13.0 toolkit.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "images/exported_names.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
namespace ours {
#include "vgpu/driver/cuda_abi.hpp"
}

namespace {

TEST(CudaAbi, IsTheToolkitOfTheList) {
  EXPECT_EQ(CUDA_VERSION, 13000);
}

TEST(CudaAbi, EveryResultHasItsValue) {
#define VGPU_RESULT(name, value) EXPECT_EQ(static_cast<int>(::name), value) << #name;
#include "vgpu/driver/results.def"
#undef VGPU_RESULT
}

TEST(CudaAbi, EveryEnumeratorHasItsValue) {
#define VGPU_VALUE(name, value) EXPECT_EQ(static_cast<long long>(::name), static_cast<long long>(value)) << #name;
#include "vgpu/driver/values.def"
#undef VGPU_VALUE
}

TEST(CudaAbi, StructuresLieAlike) {
  EXPECT_EQ(sizeof(ours::CUDA_MEMCPY2D), sizeof(::CUDA_MEMCPY2D));
  EXPECT_EQ(offsetof(ours::CUDA_MEMCPY2D, dstPitch), offsetof(::CUDA_MEMCPY2D, dstPitch));
  EXPECT_EQ(offsetof(ours::CUDA_MEMCPY2D, Height), offsetof(::CUDA_MEMCPY2D, Height));
  EXPECT_EQ(sizeof(ours::CUDA_MEMCPY3D), sizeof(::CUDA_MEMCPY3D));
  EXPECT_EQ(offsetof(ours::CUDA_MEMCPY3D, dstHeight), offsetof(::CUDA_MEMCPY3D, dstHeight));
  EXPECT_EQ(offsetof(ours::CUDA_MEMCPY3D, Depth), offsetof(::CUDA_MEMCPY3D, Depth));
  EXPECT_EQ(sizeof(ours::CUDA_ARRAY_DESCRIPTOR), sizeof(::CUDA_ARRAY_DESCRIPTOR));
  EXPECT_EQ(sizeof(ours::CUDA_ARRAY3D_DESCRIPTOR), sizeof(::CUDA_ARRAY3D_DESCRIPTOR));
  EXPECT_EQ(offsetof(ours::CUDA_ARRAY3D_DESCRIPTOR, Flags), offsetof(::CUDA_ARRAY3D_DESCRIPTOR, Flags));
  EXPECT_EQ(sizeof(ours::CUDA_RESOURCE_DESC), sizeof(::CUDA_RESOURCE_DESC));
  EXPECT_EQ(offsetof(ours::CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes),
            offsetof(::CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes));
  EXPECT_EQ(offsetof(ours::CUDA_RESOURCE_DESC, flags), offsetof(::CUDA_RESOURCE_DESC, flags));
  EXPECT_EQ(sizeof(ours::CUDA_TEXTURE_DESC), sizeof(::CUDA_TEXTURE_DESC));
  EXPECT_EQ(offsetof(ours::CUDA_TEXTURE_DESC, borderColor), offsetof(::CUDA_TEXTURE_DESC, borderColor));
  EXPECT_EQ(sizeof(ours::CUDA_KERNEL_NODE_PARAMS), sizeof(::CUDA_KERNEL_NODE_PARAMS));
  EXPECT_EQ(offsetof(ours::CUDA_KERNEL_NODE_PARAMS, kernelParams), offsetof(::CUDA_KERNEL_NODE_PARAMS, kernelParams));
  EXPECT_EQ(sizeof(ours::CUDA_KERNEL_NODE_PARAMS_v1), sizeof(::CUDA_KERNEL_NODE_PARAMS_v1));
  EXPECT_EQ(offsetof(ours::CUDA_KERNEL_NODE_PARAMS_v1, extra), offsetof(::CUDA_KERNEL_NODE_PARAMS_v1, extra));
  EXPECT_EQ(sizeof(ours::CUgraphExecUpdateResultInfo), sizeof(::CUgraphExecUpdateResultInfo));
  EXPECT_EQ(sizeof(ours::CUDA_MEMSET_NODE_PARAMS), sizeof(::CUDA_MEMSET_NODE_PARAMS));
  EXPECT_EQ(sizeof(ours::CUDA_HOST_NODE_PARAMS), sizeof(::CUDA_HOST_NODE_PARAMS));
  EXPECT_EQ(sizeof(ours::CUDA_GRAPH_INSTANTIATE_PARAMS), sizeof(::CUDA_GRAPH_INSTANTIATE_PARAMS));
  EXPECT_EQ(offsetof(ours::CUDA_GRAPH_INSTANTIATE_PARAMS, result_out),
            offsetof(::CUDA_GRAPH_INSTANTIATE_PARAMS, result_out));
  EXPECT_EQ(sizeof(ours::CUmemLocation), sizeof(::CUmemLocation));
  EXPECT_EQ(sizeof(ours::CUmemAccessDesc), sizeof(::CUmemAccessDesc));
  EXPECT_EQ(sizeof(ours::CUmemPoolProps), sizeof(::CUmemPoolProps));
  EXPECT_EQ(offsetof(ours::CUmemPoolProps, usage), offsetof(::CUmemPoolProps, usage));
  EXPECT_EQ(sizeof(ours::CUlaunchAttribute), sizeof(::CUlaunchAttribute));
  EXPECT_EQ(offsetof(ours::CUlaunchAttribute, value), offsetof(::CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(ours::CUlaunchConfig), sizeof(::CUlaunchConfig));
  EXPECT_EQ(offsetof(ours::CUlaunchConfig, numAttrs), offsetof(::CUlaunchConfig, numAttrs));
  EXPECT_EQ(sizeof(ours::CUuuid), sizeof(::CUuuid));
  EXPECT_EQ(sizeof(ours::CUdeviceptr), sizeof(::CUdeviceptr));
}

TEST(CudaAbi, SymbolsAreThoseOfTheStubLibrary) {
  const std::set<std::string> theirs =
      flashmoe::exported_names(VGPU_STUB_LIBRARY, [](std::string_view name) { return name.starts_with("cu"); });
  std::set<std::string> listed;
#define VGPU_SYMBOL(name, version, stream, symbol) listed.emplace(#symbol);
#include "vgpu/driver/symbols.def"
#undef VGPU_SYMBOL
  EXPECT_GT(theirs.size(), 600U);
  EXPECT_EQ(listed, theirs);
}

TEST(CudaAbi, TracesTellArgumentsOfFunctionsThatThereAre) {
  std::set<std::string> listed;
#define VGPU_SYMBOL(name, version, stream, symbol) listed.emplace(#symbol);
#include "vgpu/driver/symbols.def"
#undef VGPU_SYMBOL
#define VGPU_ARGUMENTS(name, text) EXPECT_TRUE(listed.contains(#name)) << #name;
#include "vgpu/driver/trace_arguments.def"
#undef VGPU_ARGUMENTS
}

}  // namespace

#else

TEST(CudaAbi, NeedsTheToolkitsHeader) {
  FAIL() << "cuda.h was not found: configure with a CUDA 13.0 toolkit on PATH or in /usr/local/cuda";
}

#endif
