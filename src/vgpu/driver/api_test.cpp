// Contexts, memory, launches, streams, graphs and events of the driver API.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "support/tree_for_test.hpp"
#include "vgpu/driver/loaded_driver.hpp"

namespace flashmoe::vgpu::driver {
namespace {

TEST_F(Driver, TellsWhatItIs) {
  char name[64] = "";
  ASSERT_EQ(call("cuDeviceGetName", name, 64, 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA L4 (virtual)");
  int value = 0;
  ASSERT_EQ(call("cuDeviceGetAttribute", &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 58);
  EXPECT_EQ(call("cuDeviceGetAttribute", &value, 9999, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuDeviceGetAttribute", &value, 1, 1), CUDA_ERROR_INVALID_DEVICE);
  const char* text = nullptr;
  ASSERT_EQ(call("cuGetErrorName", CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_EQ(call("cuGetErrorString", CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "an illegal memory access was encountered");
}

// Programs open it by either name, and link editors follow libcuda.so to the name that it gives itself.
TEST_F(Driver, IsFoundUnderTheNamesOfARealOne) {
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), library_) << "its SONAME is another";
  for (const char* name : {"vgpu/libcuda.so", "vgpu/libcuda.so.1"})
    EXPECT_EQ(dlopen(in_build(name).c_str(), RTLD_NOW | RTLD_NOLOAD), library_) << name;
}

TEST_F(Driver, FindsFunctionsByNameAndVersion) {
  const auto find = exported<int (*)(const char*, void**, int, std::uint64_t, int*)>("cuGetProcAddress_v2");
  void* found = nullptr;
  int status = -1;
  EXPECT_EQ(find("cuMemAlloc", &found, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(found, dlsym(library_, "cuMemAlloc_v2"));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(find("cuMemAlloc", &found, 2000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(found, dlsym(library_, "cuMemAlloc"));
  EXPECT_EQ(find("cuLaunchKernel", &found, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status),
            CUDA_SUCCESS);
  EXPECT_EQ(found, dlsym(library_, "cuLaunchKernel_ptsz"));
  EXPECT_EQ(find("cuLaunchKernelEx", &found, 11000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(find("cuNoSuchThing", &found, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(call("cuMipmappedArrayCreate", &found, static_cast<void*>(nullptr), 1U), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Driver, SaysWhatItRefusesAndWhy) {
  const auto said = [](const auto& asked) {
    ::testing::internal::CaptureStderr();
    asked();
    return ::testing::internal::GetCapturedStderr();
  };
  CUdeviceptr first = 0, second = 0;
  ASSERT_EQ(call("cuMemAlloc", &first, std::size_t{64}), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemAlloc", &second, std::size_t{64}), CUDA_SUCCESS);
  std::vector<unsigned char> host(128);
  const std::string beyond = said([&] {
    EXPECT_EQ(call("cuMemcpyDtoH", static_cast<void*>(host.data()), second + 8, std::size_t{128}),
              CUDA_ERROR_INVALID_VALUE);
  });
  EXPECT_NE(beyond.find("a copy of 128 bytes refused: its source is 8 bytes into cuMemAlloc #"), std::string::npos)
      << beyond;
  const std::string filled =
      said([&] { EXPECT_EQ(call("cuMemsetD32", first, 1U, std::size_t{17}), CUDA_ERROR_INVALID_VALUE); });
  EXPECT_NE(filled.find("a memset of 68 bytes refused: its destination is 0 bytes into"), std::string::npos) << filled;
  ASSERT_EQ(call("cuMemFree", second), CUDA_SUCCESS);
  const std::string twice = said([&] { EXPECT_EQ(call("cuMemFree", second), CUDA_ERROR_INVALID_VALUE); });
  EXPECT_NE(twice.find("cannot be freed: it is 0 bytes into freed cuMemAlloc #"), std::string::npos) << twice;
  unsigned value = 0;
  void* parameters[] = {&first, &value};
  const std::string wide =
      said([&] { EXPECT_EQ(launch(function(linked(), "fill"), 1, 8, 100'000, parameters), CUDA_ERROR_INVALID_VALUE); });
  EXPECT_NE(wide.find("cudaFuncSetAttribute"), std::string::npos) << wide;
}

TEST_F(Driver, CopiesAndRefuses) {
  CUdeviceptr address = 0;
  EXPECT_EQ(call("cuMemAlloc", &address, std::size_t{0}), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(call("cuMemAlloc", &address, std::size_t{64}), CUDA_SUCCESS);
  std::vector<unsigned char> in(64, 7), out(64);
  EXPECT_EQ(call("cuMemcpyHtoD", address, static_cast<const void*>(in.data()), std::size_t{64}), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD16", address + 32, static_cast<unsigned short>(0x0101), std::size_t{16}), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemcpyDtoH", static_cast<void*>(out.data()), address, std::size_t{64}), CUDA_SUCCESS);
  EXPECT_EQ(out[31], 7);
  EXPECT_EQ(out[32], 1);
  EXPECT_EQ(call("cuMemcpyHtoD", address, static_cast<const void*>(in.data()), std::size_t{65}),
            CUDA_ERROR_INVALID_VALUE);
  int type = 0;
  EXPECT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&type), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 3),
            CUDA_SUCCESS);
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(call("cuMemFree", address), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemFree", address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemcpyDtoH", static_cast<void*>(out.data()), address, std::size_t{64}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemAlloc", &address, std::size_t{1} << 45), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(Driver, LinksPlacesAndLaunches) {
  const CUmodule module = linked();
  ASSERT_NE(module, nullptr);
  CUdeviceptr factors = 0, where = 0, counter = 0, out = 0;
  std::size_t bytes = 0;
  ASSERT_EQ(call("cuModuleGetGlobal", &factors, &bytes, module, "factors"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 12U);
  EXPECT_EQ(reinterpret_cast<const float*>(factors)[2], 3.0F);
  ASSERT_EQ(call("cuModuleGetGlobal", &where, &bytes, module, "where"), CUDA_SUCCESS);
  ASSERT_EQ(call("cuModuleGetGlobal", &counter, &bytes, module, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(*reinterpret_cast<const CUdeviceptr*>(where), counter);
  EXPECT_EQ(call("cuModuleGetGlobal", &counter, &bytes, module, "nothing"), CUDA_ERROR_NOT_FOUND);

  ASSERT_EQ(call("cuMemAlloc", &out, std::size_t{256}), CUDA_SUCCESS);
  unsigned value = 5;
  void* parameters[] = {&out, &value};
  ASSERT_EQ(launch(function(module, "fill"), 1, 64, 0, parameters), CUDA_SUCCESS);
  std::vector<unsigned> result(64);
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(result.data()), out, std::size_t{256}), CUDA_SUCCESS);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(result[i], 5 + i);
  ASSERT_EQ(launch(function(module, "doubled"), 1, 1, 0, parameters), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(result.data()), out, std::size_t{4}), CUDA_SUCCESS);
  EXPECT_EQ(result[0], 80U);
}

TEST_F(Driver, RefusesWhatADeviceRefuses) {
  const CUmodule module = linked();
  const CUfunction fill = function(module, "fill");
  CUdeviceptr out = 0;
  ASSERT_EQ(call("cuMemAlloc", &out, std::size_t{4096}), CUDA_SUCCESS);
  unsigned value = 0;
  void* parameters[] = {&out, &value};
  EXPECT_EQ(launch(fill, 0, 32, 0, parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(fill, 1, 1025, 0, parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(fill, 1, 32, 49153, parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(function(module, "doubled"), 1, 65, 0, parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(fill, 1, 32, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(nullptr, 1, 32, 0, parameters), CUDA_ERROR_INVALID_HANDLE);
  constexpr int dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(call("cuFuncSetAttribute", fill, dynamic, 99 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(call("cuFuncSetAttribute", fill, dynamic, 99 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(launch(fill, 1, 32, 99 * 1024, parameters), CUDA_SUCCESS);
  int ctas = 0;
  ASSERT_EQ(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &ctas, fill, 32, std::size_t{40 * 1024}), CUDA_SUCCESS);
  EXPECT_EQ(ctas, 2);
  CUmodule broken = nullptr;
  EXPECT_EQ(call("cuModuleLoadData", &broken, static_cast<const void*>(".version 9.0\n.target sm_80\n.entry k( {")),
            CUDA_ERROR_INVALID_PTX);
  // Without the module that defines it the call cannot be made.
  EXPECT_NE(call("cuModuleLoadData", &broken, static_cast<const void*>(kernels)) == CUDA_SUCCESS &&
                launch(function(broken, "doubled"), 1, 1, 0, parameters) == CUDA_SUCCESS,
            true);
}

TEST_F(Driver, AFaultSticksUntilTheReset) {
  const CUmodule module = linked();
  ASSERT_EQ(launch(function(module, "stray"), 1, 1, 0, nullptr), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(call("cuCtxSynchronize", context_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(call("cuMemAlloc", &address, std::size_t{4}), CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(call("cuDevicePrimaryCtxReset", 0), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAlloc", &address, std::size_t{4}), CUDA_SUCCESS);
}

// Nothing of the parent's is there: a launch would wait for threads that fork() left behind.
TEST_F(Driver, AChildOfForkIsRefused) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CUdeviceptr address = 0;
    int count = 0;
    const bool refused = call("cuInit", 0U) == CUDA_ERROR_NOT_INITIALIZED &&
                         call("cuDeviceGetCount", &count) == CUDA_ERROR_NOT_INITIALIZED &&
                         call("cuMemAlloc", &address, std::size_t{4}) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  int count = 0;
  EXPECT_EQ(call("cuDeviceGetCount", &count), CUDA_SUCCESS) << "the parent goes on";
}

TEST_F(Driver, LaunchesAsBeforeCuda4) {
  const CUfunction fill = function(linked(), "fill");
  CUdeviceptr words = 0;
  ASSERT_EQ(call("cuMemAlloc", &words, std::size_t{256}), CUDA_SUCCESS);
  EXPECT_EQ(call("cuFuncSetBlockShape", fill, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(call("cuFuncSetBlockShape", fill, 16, 1, 1), CUDA_SUCCESS);
  ASSERT_EQ(call("cuFuncSetSharedSize", fill, 128U), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLaunchGrid", fill, 1, 1), CUDA_ERROR_INVALID_VALUE) << "without parameters";
  ASSERT_EQ(call("cuParamSetv", fill, 0, static_cast<void*>(&words), 8U), CUDA_SUCCESS);
  ASSERT_EQ(call("cuParamSeti", fill, 8, 5U), CUDA_SUCCESS);
  ASSERT_EQ(call("cuParamSetSize", fill, 12U), CUDA_SUCCESS);
  EXPECT_EQ(call("cuParamSetv", fill, 32764, static_cast<void*>(&words), 8U), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuParamSetv", fill, -8, static_cast<void*>(&words), 8U), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(call("cuMemsetD32", words, 0U, std::size_t{64}), CUDA_SUCCESS);
  ASSERT_EQ(call("cuLaunchGrid", fill, 2, 1), CUDA_SUCCESS);
  unsigned host[17] = {};
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(host), words, sizeof host), CUDA_SUCCESS);
  EXPECT_EQ(host[15], 20U);
  EXPECT_EQ(host[16], 0U);
}

TEST_F(Driver, TheLastToDetachDestroysTheContext) {
  CUcontext context = nullptr, same = nullptr;
  void* const none = nullptr;
  ASSERT_EQ(call("cuCtxCreate", &context, none, 0U, 0), CUDA_SUCCESS);
  ASSERT_EQ(call("cuCtxAttach", &same, 0U), CUDA_SUCCESS);
  EXPECT_EQ(same, context);
  EXPECT_EQ(call("cuCtxDetach", context), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxSynchronize", context), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxDetach", context), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxDetach", context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(call("cuCtxDetach", context_), CUDA_ERROR_INVALID_CONTEXT) << "the primary one is released, not detached";
}

TEST_F(Driver, CallbacksMayWaitForThreadsThatCallTheDriver) {
  const CUhostFn wait_for_another = [](void* user) {
    std::thread([user] {
      *static_cast<CUresult*>(user) = [] {
        int count = 0;
        return call("cuDeviceGetCount", &count);
      }();
    }).join();
  };
  CUresult seen = CUDA_ERROR_UNKNOWN;
  ASSERT_EQ(call("cuLaunchHostFunc", CUstream{}, wait_for_another, static_cast<void*>(&seen)), CUDA_SUCCESS);
  EXPECT_EQ(seen, CUDA_SUCCESS);
}

// CUDA Programming Guide, CUDA User Objects: ended with the last reference, be it the program's, the graph's or that of
// what was made of it.
TEST_F(Driver, AUserObjectEndsWithItsLastReference) {
  int ended = 0;
  const CUhostFn end = [](void* count) { ++*static_cast<int*>(count); };
  CUuserObject object = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_EQ(call("cuUserObjectCreate", &object, &ended, end, 1U, 0U), CUDA_ERROR_INVALID_VALUE) << "no flag";
  EXPECT_EQ(call("cuUserObjectCreate", &object, &ended, end, 0U, 1U), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(call("cuUserObjectCreate", &object, &ended, end, 2U, 1U), CUDA_SUCCESS);
  ASSERT_EQ(call("cuUserObjectRetain", object, 1U), CUDA_SUCCESS);
  EXPECT_EQ(call("cuUserObjectRelease", object, 4U), CUDA_ERROR_INVALID_VALUE) << "more than there are";
  EXPECT_EQ(call("cuUserObjectRelease", object, 2U), CUDA_SUCCESS);
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(call("cuUserObjectRelease", object, 1U), CUDA_SUCCESS);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(call("cuUserObjectRelease", object, 1U), CUDA_ERROR_INVALID_VALUE);

  ASSERT_EQ(call("cuGraphCreate", &graph, 0U), CUDA_SUCCESS);
  for (const unsigned moves : {1U, 0U}) {
    ASSERT_EQ(call("cuUserObjectCreate", &object, &ended, end, 1U, 1U), CUDA_SUCCESS);
    ASSERT_EQ(call("cuGraphRetainUserObject", graph, object, 1U, moves), CUDA_SUCCESS);
    const CUresult mine = moves == 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    EXPECT_EQ(call("cuUserObjectRelease", object, 1U), mine);
    EXPECT_EQ(ended, 1) << "the graph has it";
  }
  ASSERT_EQ(call("cuGraphReleaseUserObject", graph, object, 1U), CUDA_SUCCESS);
  EXPECT_EQ(ended, 2);
  CUDA_GRAPH_INSTANTIATE_PARAMS asked{.flags = 0, .hUploadStream = nullptr, .hErrNode_out = &ended, .result_out = -1};
  ASSERT_EQ(call("cuGraphInstantiateWithParams", &exec, graph, &asked), CUDA_SUCCESS);
  EXPECT_EQ(asked.hErrNode_out, nullptr);
  EXPECT_EQ(asked.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  ASSERT_EQ(call("cuGraphDestroy", graph), CUDA_SUCCESS);
  EXPECT_EQ(ended, 2) << "what was made of the graph has it, too";
  ASSERT_EQ(call("cuGraphExecDestroy", exec), CUDA_SUCCESS);
  EXPECT_EQ(ended, 3);
}

TEST_F(Driver, WhatAStreamCapturesIsDoneByTheGraph) {
  const CUfunction fill = function(linked(), "fill");
  CUdeviceptr words = 0;
  ASSERT_EQ(call("cuMemAlloc", &words, std::size_t{64}), CUDA_SUCCESS);
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  int status = -1;
  ASSERT_EQ(call("cuStreamCreate", &stream, 1U), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamBeginCapture", CUstream{}, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(call("cuMemsetD32", words, 1U, std::size_t{16}), CUDA_SUCCESS);
  ASSERT_EQ(call("cuStreamBeginCapture", stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamIsCapturing", stream, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  std::uint64_t id = 0;
  CUgraph begun = nullptr;
  const void** const none = nullptr;
  std::size_t nodes = 9;
  ASSERT_EQ(call("cuStreamGetCaptureInfo", stream, &status, &id, &begun, none, none, &nodes), CUDA_SUCCESS);
  EXPECT_TRUE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && begun != nullptr && nodes == 0);
  // The parameters are those of now, not of the replay.
  unsigned value = 7;
  void* parameters[] = {&words, &value};
  EXPECT_EQ(call("cuMemsetD32Async", words, 5U, std::size_t{16}, stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLaunchKernel", fill, 1U, 1U, 1U, 8U, 1U, 1U, 0U, stream, static_cast<void**>(parameters),
                 static_cast<void**>(nullptr)),
            CUDA_SUCCESS);
  value = 9;
  const void* waits_for = nullptr;
  ASSERT_EQ(call("cuStreamGetCaptureInfo", stream, &status, &id, &begun, &waits_for, none, &nodes), CUDA_SUCCESS);
  EXPECT_TRUE(nodes == 1 && waits_for != nullptr);
  unsigned host[16] = {};
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(host), words, sizeof host), CUDA_SUCCESS);
  EXPECT_EQ(host[0], 1U) << "done while it was captured";
  ASSERT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(graph, begun);
  void* node[3] = {};
  EXPECT_EQ(call("cuGraphGetNodes", graph, static_cast<void**>(nullptr), &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 2U);
  nodes = 3;
  EXPECT_EQ(call("cuGraphGetNodes", graph, static_cast<void**>(node), &nodes), CUDA_SUCCESS);
  EXPECT_TRUE(nodes == 2 && node[0] != nullptr && node[1] != node[0] && node[2] == nullptr);
  ASSERT_EQ(call("cuStreamGetCaptureInfo", stream, &status, &id, &begun, none, none, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  ASSERT_EQ(call("cuGraphInstantiateWithFlags", &exec, graph, 0ULL), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphDestroy", graph), CUDA_SUCCESS);
  for (int replay = 0; replay < 2; ++replay) {
    ASSERT_EQ(call("cuMemsetD32", words, 1U, std::size_t{16}), CUDA_SUCCESS);
    ASSERT_EQ(call("cuGraphUpload", exec, stream), CUDA_SUCCESS);
    ASSERT_EQ(call("cuGraphLaunch", exec, stream), CUDA_SUCCESS);
    ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(host), words, sizeof host), CUDA_SUCCESS);
    EXPECT_EQ(host[0], 7U);
    EXPECT_EQ(host[15], 5U);
  }
  EXPECT_EQ(call("cuGraphExecDestroy", exec), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphLaunch", exec, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(call("cuGraphUpload", exec, stream), CUDA_ERROR_INVALID_HANDLE);
  // Waiting for it spoils a capture.
  ASSERT_EQ(call("cuStreamBeginCapture", stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_SUCCESS);
  // So does destroying what is being made.
  ASSERT_EQ(call("cuStreamBeginCapture", stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(call("cuStreamGetCaptureInfo", stream, &status, &id, &begun, none, none, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphDestroy", begun), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Driver, EventsTellVirtualTime) {
  const CUmodule module = linked();
  CUdeviceptr out = 0;
  ASSERT_EQ(call("cuMemAlloc", &out, std::size_t{4096}), CUDA_SUCCESS);
  unsigned value = 0;
  void* parameters[] = {&out, &value};
  CUevent begin = nullptr, end = nullptr;
  float milliseconds = -1;
  ASSERT_EQ(call("cuEventCreate", &begin, 0U), CUDA_SUCCESS);
  ASSERT_EQ(call("cuEventCreate", &end, 0U), CUDA_SUCCESS);
  EXPECT_EQ(call("cuEventElapsedTime", &milliseconds, begin, end), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(call("cuEventRecord", begin, CUstream{}), CUDA_SUCCESS);
  ASSERT_EQ(launch(function(module, "fill"), 1, 1024, 0, parameters), CUDA_SUCCESS);
  ASSERT_EQ(call("cuEventRecord", end, CUstream{}), CUDA_SUCCESS);
  ASSERT_EQ(call("cuEventElapsedTime", &milliseconds, begin, end), CUDA_SUCCESS);
  // 32 warps of about nine instructions at four a clock and 2040 MHz.
  EXPECT_GT(milliseconds, 20e-6F);
  EXPECT_LT(milliseconds, 80e-6F);
}

// A fast run, in which nobody counts: no time is less than the bytes need. An L4 has 300 GB/s of DRAM, 31.5 over PCIe.
TEST_F(Driver, EventTimesAreNoLessThanTheBytesNeed) {
  const CUmodule module = linked();
  constexpr std::size_t bytes = 8 << 20;
  CUdeviceptr out = 0, other = 0;
  ASSERT_EQ(call("cuMemAlloc", &out, bytes), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemAlloc", &other, bytes), CUDA_SUCCESS);
  CUevent begin = nullptr, end = nullptr;
  ASSERT_EQ(call("cuEventCreate", &begin, 0U), CUDA_SUCCESS);
  ASSERT_EQ(call("cuEventCreate", &end, 0U), CUDA_SUCCESS);
  const auto gb_per_s = [&](const auto& work) {
    float milliseconds = 0;
    EXPECT_EQ(call("cuEventRecord", begin, CUstream{}), CUDA_SUCCESS);
    EXPECT_EQ(work(), CUDA_SUCCESS);
    EXPECT_EQ(call("cuEventRecord", end, CUstream{}), CUDA_SUCCESS);
    EXPECT_EQ(call("cuEventElapsedTime", &milliseconds, begin, end), CUDA_SUCCESS);
    return static_cast<double>(bytes) / (milliseconds * 1e6);
  };
  unsigned value = 7;
  void* parameters[] = {&out, &value};
  const auto fill = [&] { return launch(function(module, "fill_all"), bytes / 4096, 1024, 0, parameters); };
  for (int again = 0; again < 2; ++again) EXPECT_NEAR(gb_per_s(fill), 300, 1);
  EXPECT_NEAR(gb_per_s([&] { return call("cuMemsetD8", out, static_cast<unsigned char>(1), bytes); }), 300, 1);
  EXPECT_NEAR(gb_per_s([&] { return call("cuMemcpyDtoD", other, out, bytes); }), 150, 1);
  std::vector<char> host(bytes);
  EXPECT_NEAR(gb_per_s([&] { return call("cuMemcpyHtoD", out, static_cast<const void*>(host.data()), bytes); }), 31.5,
              0.1);
  void* pinned = nullptr;
  ASSERT_EQ(call("cuMemHostAlloc", &pinned, bytes, 0U), CUDA_SUCCESS);
  const auto into_pinned = [&] { return call("cuMemcpy", reinterpret_cast<CUdeviceptr>(pinned), out, bytes); };
  EXPECT_NEAR(gb_per_s(into_pinned), 31.5, 0.1);
}

TEST_F(Driver, KernelsReachHostMemoryThatWasRegistered) {
  std::vector<unsigned> own(96, 5);
  void* const host = own.data();
  const std::size_t bytes = own.size() * sizeof(unsigned);
  CUdeviceptr device = 0;
  EXPECT_EQ(call("cuMemHostGetDevicePointer", &device, host, 0U), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(call("cuMemHostRegister", host, bytes, 2U), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemHostRegister", host, bytes, 2U), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  ASSERT_EQ(call("cuMemHostGetDevicePointer", &device, static_cast<void*>(&own[32]), 0U), CUDA_SUCCESS);
  void* behind = nullptr;
  ASSERT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&behind), CU_POINTER_ATTRIBUTE_HOST_POINTER, device),
            CUDA_SUCCESS);
  EXPECT_EQ(behind, &own[32]);

  unsigned value = 7;
  void* parameters[] = {&device, &value};
  ASSERT_EQ(launch(function(linked(), "fill_all"), 1, 32, 0, parameters), CUDA_SUCCESS);
  std::vector<unsigned> expected(96, 5);
  std::fill_n(expected.begin() + 32, 32, 7);
  EXPECT_EQ(own, expected);

  // Copies and fills see what the host wrote meanwhile, and the host what they did.
  own[33] = 8;
  unsigned read[2] = {};
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(read), device, sizeof read), CUDA_SUCCESS);
  EXPECT_EQ(read[0], 7U);
  EXPECT_EQ(read[1], 8U);
  ASSERT_EQ(call("cuMemsetD32", device, 9U, std::size_t{1}), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemcpyHtoD", device + 8, static_cast<const void*>(read), sizeof read), CUDA_SUCCESS);
  EXPECT_EQ(std::vector<unsigned>(own.begin() + 32, own.begin() + 36), (std::vector<unsigned>{9, 8, 7, 8}));

  EXPECT_EQ(call("cuMemHostUnregister", host), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemHostUnregister", host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(call("cuMemcpyDtoH", static_cast<void*>(read), device, sizeof read), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, TheGlobalTimerGoesOnFromLaunchToLaunch) {
  const CUfunction times = function(linked(), "times");
  CUdeviceptr out = 0;
  ASSERT_EQ(call("cuMemAlloc", &out, std::size_t{16}), CUDA_SUCCESS);
  void* parameters[] = {&out};
  std::uint64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    std::uint64_t read[2] = {};
    ASSERT_EQ(launch(times, 1, 1, 0, parameters), CUDA_SUCCESS);
    ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(read), out, sizeof read), CUDA_SUCCESS);
    EXPECT_GE(read[0], before);
    EXPECT_GT(read[1], read[0]);
    before = read[1];
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
