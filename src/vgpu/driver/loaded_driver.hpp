// For tests: the driver as a program sees it, loaded with dlopen and called through cuGetProcAddress.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "support/tree_for_test.hpp"
#include "vgpu/driver/cuda_abi.hpp"

namespace flashmoe::vgpu::driver {

inline constexpr const char* kernels = R"(
.version 9.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 40;
.visible .const .align 8 .f32 factors[3] = {0f3F800000, 0f40000000, 3.0};
.visible .global .align 8 .u64 where = counter;
.extern .func (.param .b32 r) twice (.param .b32 x);
.visible .entry fill(.param .u64 out, .param .u32 value) {
  .reg .u32 %r<4>; .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2;
  add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret;
}
.visible .entry fill_all(.param .u64 out, .param .u32 value) {
  .reg .u32 %r<5>; .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r2, %r2, %r3, %r4;
  mad.wide.u32 %rd1, %r2, 4, %rd1; st.global.u32 [%rd1], %r1; ret;
}
.visible .entry doubled(.param .u64 out) .maxntid 64, 1, 1 {
  .reg .u32 %r<4>; .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
  ld.global.u32 %r1, [counter];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
  st.global.u32 [%rd1], %r2; ret;
}
.visible .entry times(.param .u64 out) {
  .reg .u64 %rd<4>;
  mov.u64 %rd2, %globaltimer;
  ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
  st.global.u64 [%rd1], %rd2; mov.u64 %rd3, %globaltimer; st.global.u64 [%rd1+8], %rd3; ret;
}
.visible .entry stray() {
  .reg .u64 %rd<2>;
  mov.u64 %rd1, 64; st.global.u32 [%rd1], 1; ret;
}
)";
inline constexpr const char* helper = R"(
.version 9.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) twice (.param .b32 x) {
  .reg .u32 %r<2>;
  ld.param.b32 %r1, [x]; add.u32 %r1, %r1, %r1; st.param.b32 [r], %r1; ret;
}
)";

inline constexpr const char* idle =
    ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

// One process has one driver: it is loaded once, and each test begins with an empty primary context.
class Driver : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    library_ = dlopen(in_build("src/vgpu/libvgpu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    setenv("VGPU_DEVICE", "l4", 1);
    ASSERT_EQ(exported<int (*)(unsigned)>("cuInit")(0), 0);
  }
  void SetUp() override {
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(call("cuDevicePrimaryCtxReset", 0), CUDA_SUCCESS);
    ASSERT_EQ(call("cuCtxSetCurrent", context_), CUDA_SUCCESS);
  }
  void TearDown() override { EXPECT_EQ(call("cuDevicePrimaryCtxRelease", 0), CUDA_SUCCESS); }

  template <class F>
  static F exported(const char* name) {
    return reinterpret_cast<F>(dlsym(library_, name));
  }
  // Any function by its documented name. The arguments' types are the parameters' types.
  template <class... A>
  static CUresult call(const char* name, A... arguments) {
    void* function = nullptr;
    const auto find = exported<int (*)(const char*, void**, int, std::uint64_t, int*)>("cuGetProcAddress_v2");
    if (find(name, &function, 13000, 0, nullptr) != 0) return CUDA_ERROR_NOT_FOUND;
    return reinterpret_cast<CUresult (*)(A...)>(function)(arguments...);
  }

  // Both texts through the linker, as cuda-core does it.
  CUmodule linked() {
    CUlinkState link = nullptr;
    EXPECT_EQ(call("cuLinkCreate", 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), &link), CUDA_SUCCESS);
    for (const char* text : {kernels, helper})
      EXPECT_EQ(call("cuLinkAddData", link, CU_JIT_INPUT_PTX, static_cast<void*>(const_cast<char*>(text)),
                     std::strlen(text) + 1, text, 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr)),
                CUDA_SUCCESS);
    void* image = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(call("cuLinkComplete", link, &image, &bytes), CUDA_SUCCESS);
    CUmodule module = nullptr;
    EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(image)), CUDA_SUCCESS);
    EXPECT_EQ(call("cuLinkDestroy", link), CUDA_SUCCESS);
    return module;
  }
  CUfunction function(CUmodule module, const char* name) {
    CUfunction found = nullptr;
    EXPECT_EQ(call("cuModuleGetFunction", &found, module, name), CUDA_SUCCESS) << name;
    return found;
  }
  CUresult launch(CUfunction function, unsigned grid, unsigned block, unsigned shared, void** parameters) {
    return call("cuLaunchKernel", function, grid, 1U, 1U, block, 1U, 1U, shared, CUstream{}, parameters,
                static_cast<void**>(nullptr));
  }

  static inline void* library_ = nullptr;
  CUcontext context_ = nullptr;
};

}  // namespace flashmoe::vgpu::driver
