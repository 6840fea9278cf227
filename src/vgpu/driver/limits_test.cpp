// cuCtxSetLimit: the stack of a thread and the heap of malloc.
#include <cstddef>
#include <utility>

#include "vgpu/driver/loaded_driver.hpp"

namespace flashmoe::vgpu::driver {
namespace {

constexpr const char* limited = R"(
.version 9.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 bytes);
.func down(.param .b32 n) {
  .reg .b32 %r<4>; .reg .pred %p<2>; .local .align 8 .b8 room[40];
  ld.param.u32 %r1, [n]; st.local.u32 [room], %r1;
  setp.eq.u32 %p1, %r1, 0; @%p1 ret;
  sub.u32 %r2, %r1, 1; { .param .b32 a; st.param.b32 [a], %r2; call down, (a); } ret;
}
.visible .entry recursive(.param .u32 depth) {
  .reg .b32 %r<4>; ld.param.u32 %r1, [depth];
  { .param .b32 a; st.param.b32 [a], %r1; call down, (a); } ret;
}
.visible .entry roomy() { .reg .b32 %r<2>; .local .b8 room[20000]; mov.u32 %r1, 1; st.local.u32 [room+19996], %r1; ret; }
.visible .entry allocates(.param .u64 count, .param .u64 bytes) {
  .reg .b64 %rd<8>; .reg .pred %p<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [count]; ld.param.u64 %rd2, [bytes]; cvta.to.global.u64 %rd1, %rd1;
  { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd2; call (b), malloc, (a); ld.param.b64 %rd3, [b]; }
  setp.ne.u64 %p1, %rd3, 0; @%p1 st.u8 [%rd3], 1; @%p1 red.global.add.u32 [%rd1], 1; ret;
}
)";

TEST_F(Driver, LimitsHaveTheirDefaultsAndAnswerWhatWasSet) {
  std::size_t value = 0;
  for (const auto& [limit, bytes] : {std::pair{CU_LIMIT_STACK_SIZE, 1024},
                                     {CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
                                     {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20}}) {
    ASSERT_EQ(call("cuCtxGetLimit", &value, limit), CUDA_SUCCESS);
    EXPECT_EQ(value, static_cast<std::size_t>(bytes)) << limit;
    ASSERT_EQ(call("cuCtxSetLimit", limit, std::size_t{4096}), CUDA_SUCCESS);
    ASSERT_EQ(call("cuCtxGetLimit", &value, limit), CUDA_SUCCESS);
    EXPECT_EQ(value, 4096U) << limit;
  }
  EXPECT_EQ(call("cuCtxSetLimit", CU_LIMIT_STACK_SIZE, std::size_t{512 * 1024 + 1}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuCtxSetLimit", CU_LIMIT_MALLOC_HEAP_SIZE, std::size_t{1} << 40U), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(call("cuCtxSetLimit", CU_LIMIT_MAX, std::size_t{1}), CUDA_ERROR_UNSUPPORTED_LIMIT);
  ASSERT_EQ(call("cuDevicePrimaryCtxReset", 0), CUDA_SUCCESS);
  ASSERT_EQ(call("cuCtxGetLimit", &value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(value, 1024U);
}

// What a kernel needs for certain the driver gives it; how deep it recurses nobody knows before.
TEST_F(Driver, TheStackLimitEndsARecursion) {
  const auto run = [&](const char* name, unsigned depth) {
    CUmodule module = nullptr;
    EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(limited)), CUDA_SUCCESS);
    void* parameters[] = {&depth};
    EXPECT_EQ(launch(function(module, name), 1, 32, 0, parameters), CUDA_SUCCESS);
    return call("cuCtxSynchronize", context_);
  };
  EXPECT_EQ(run("roomy", 0), CUDA_SUCCESS);
  EXPECT_EQ(run("recursive", 8), CUDA_SUCCESS);
  EXPECT_EQ(run("recursive", 100), CUDA_ERROR_HARDWARE_STACK_ERROR);
  ASSERT_EQ(call("cuDevicePrimaryCtxReset", 0), CUDA_SUCCESS);
  ASSERT_EQ(call("cuCtxSetLimit", CU_LIMIT_STACK_SIZE, std::size_t{16 * 1024}), CUDA_SUCCESS);
  EXPECT_EQ(run("recursive", 100), CUDA_SUCCESS);
}

TEST_F(Driver, TheHeapLimitEndsMalloc) {
  ASSERT_EQ(call("cuCtxSetLimit", CU_LIMIT_MALLOC_HEAP_SIZE, std::size_t{1 << 20}), CUDA_SUCCESS);
  CUmodule module = nullptr;
  CUdeviceptr count = 0;
  std::uint64_t bytes = 100'000;
  unsigned allocated = 0;
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(limited)), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemAlloc", &count, std::size_t{4}), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemsetD32", count, 0U, std::size_t{1}), CUDA_SUCCESS);
  void* parameters[] = {&count, &bytes};
  for (int i = 0; i < 2; ++i)  // what one launch allocated is still there in the next
    ASSERT_EQ(launch(function(module, "allocates"), 2, 32, 0, parameters), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(&allocated), count, std::size_t{4}), CUDA_SUCCESS);
  EXPECT_EQ(allocated, 10U);
  EXPECT_EQ(call("cuCtxSetLimit", CU_LIMIT_MALLOC_HEAP_SIZE, std::size_t{1 << 22}), CUDA_ERROR_INVALID_VALUE)
      << "a kernel that uses malloc was launched";
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
