// The driver as a program sees it: loaded with dlopen, called through cuGetProcAddress.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "vgpu/driver/cuda_abi.hpp"

namespace {

constexpr const char* kernels = R"(
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
constexpr const char* helper = R"(
.version 9.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) twice (.param .b32 x) {
  .reg .u32 %r<2>;
  ld.param.b32 %r1, [x]; add.u32 %r1, %r1, %r1; st.param.b32 [r], %r1; ret;
}
)";

constexpr const char* idle = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

// One process has one driver: it is loaded once, and each test begins with an empty primary context.
class Driver : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    library_ = dlopen(VGPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
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
}

// Programs open it by either name, and link editors follow libcuda.so to the name that it gives itself.
TEST_F(Driver, IsFoundUnderTheNamesOfARealOne) {
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), library_) << "its SONAME is another";
  for (const char* name : {"/libcuda.so", "/libcuda.so.1"})
    EXPECT_EQ(dlopen((std::string(VGPU_DIRECTORY) + name).c_str(), RTLD_NOW | RTLD_NOLOAD), library_) << name;
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
  EXPECT_EQ(call("cuGraphCreate", &found, 0U), CUDA_ERROR_NOT_SUPPORTED);
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

TEST_F(Driver, RefusesPtxForNewerTargets) {
  for (const char* target : {"sm_90", "sm_90a", "sm_80a"}) {
    const std::string text =
        std::string(".version 9.0\n.target ") + target + "\n.address_size 64\n.entry k() { ret; }\n";
    CUmodule module = nullptr;
    EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(text.c_str())), CUDA_ERROR_INVALID_PTX)
        << target;
  }
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

TEST_F(Driver, AnUnsupportedFormCostsItsKernelNotTheModule) {
  const char* text =
      ".version 9.0\n.target sm_80\n.address_size 64\n.global .texref picture;\n"
      ".visible .entry textured() { .reg .f32 %f<5>; .reg .b32 %r<2>;\n"
      "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [picture, {%r1}]; ret; }\n.visible .entry plain() { ret; }\n";
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUfunction found = nullptr;
  CUkernel both[2] = {};
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(text)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuModuleGetFunction", &found, module, "textured"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(launch(function(module, "plain"), 1, 32, 0, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(call("cuLibraryLoadData", &library, static_cast<const void*>(text), static_cast<int*>(nullptr),
                 static_cast<void**>(nullptr), 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), 0U),
            CUDA_SUCCESS);
  EXPECT_EQ(call("cuLibraryGetKernel", &both[0], library, "textured"), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(call("cuLibraryEnumerateKernels", static_cast<CUkernel*>(both), 2U, library), CUDA_SUCCESS);
  EXPECT_EQ(launch(reinterpret_cast<CUfunction>(both[0]), 1, 32, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(launch(reinterpret_cast<CUfunction>(both[1]), 1, 32, 0, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call("cuLibraryUnload", library), CUDA_SUCCESS);
  EXPECT_EQ(call("cuModuleLoadData", &module,
                 static_cast<const void*>(".version 9.0\n.target sm_80\n"
                                          ".entry k() { frobnicate.b32; ret; }\n")),
            CUDA_ERROR_INVALID_PTX);
}

// A library tries its cubin and then its PTX; that the first is refused is no news to its user.
TEST_F(Driver, WhoAsksWhyAnImageDoesNotFitIsToldAlone) {
  struct {
    unsigned char ident[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    unsigned char rest[48] = {};
  } sass;  // an ELF file without sections: no PTX in it
  CUmodule module = nullptr;
  char log[400] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(call("cuModuleLoadDataEx", &module, static_cast<const void*>(&sass), 2U, static_cast<int*>(options),
                 static_cast<void**>(values)),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(std::strstr(log, "-lineinfo"), nullptr) << log;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(&sass)), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("-lineinfo"), std::string::npos);
}

TEST_F(Driver, FilesAreReadWithinTheirBounds) {
  const std::string path = ::testing::TempDir() + "image-" + std::to_string(getpid());
  struct {
    std::uint32_t magic = 0x466243b1, version = 1;  // the wrapper of a fatbin: a pointer that no file can have
    std::uint64_t pointer = 16, name = 0;
  } wrapper;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&wrapper), sizeof wrapper);
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  EXPECT_EQ(call("cuModuleLoad", &module, path.c_str()), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(call("cuLibraryLoadFromFile", &library, path.c_str(), static_cast<int*>(nullptr),
                 static_cast<void**>(nullptr), 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), 0U),
            CUDA_ERROR_INVALID_IMAGE);
  std::ofstream(path) << idle;
  EXPECT_EQ(call("cuModuleLoad", &module, path.c_str()), CUDA_SUCCESS);
  std::remove(path.c_str());
  EXPECT_EQ(call("cuModuleLoad", &module, path.c_str()), CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_EQ(call("cuModuleLoad", &module, "/"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(Driver, LibrariesBelongToNoContext) {
  ASSERT_EQ(call("cuCtxSetCurrent", CUcontext{}), CUDA_SUCCESS);
  CUlibrary library = nullptr;
  ASSERT_EQ(call("cuLibraryLoadData", &library, static_cast<const void*>(idle), static_cast<int*>(nullptr),
                 static_cast<void**>(nullptr), 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), 0U),
            CUDA_SUCCESS);
  CUkernel kernel = nullptr;
  ASSERT_EQ(call("cuLibraryGetKernel", &kernel, library, "nothing"), CUDA_SUCCESS);
  CUlibrary home = nullptr;
  EXPECT_EQ(call("cuKernelGetLibrary", &home, kernel), CUDA_SUCCESS);
  EXPECT_EQ(home, library);
  EXPECT_EQ(call("cuKernelGetLibrary", static_cast<CUlibrary*>(nullptr), kernel), CUDA_ERROR_INVALID_VALUE);
  // A plain context, though its parameters are not null.
  struct {
    void* affinities = nullptr;
    int affinity_count = 0;
    void* graphics = nullptr;
  } plain;
  for (int i = 0; i < 2; ++i) {
    CUcontext context = nullptr;
    ASSERT_EQ(call("cuCtxCreate", &context, &plain, 0U, 0), CUDA_SUCCESS);
    EXPECT_EQ(launch(reinterpret_cast<CUfunction>(kernel), 1, 32, 0, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(call("cuCtxSynchronize", context), CUDA_SUCCESS);
    ASSERT_EQ(call("cuCtxDestroy", context), CUDA_SUCCESS);
  }
  EXPECT_EQ(call("cuLibraryUnload", library), CUDA_SUCCESS);
}

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

TEST_F(Driver, AModulesFunctionHasNoLibrary) {
  CUmodule module = nullptr;
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(idle)), CUDA_SUCCESS);
  const auto kernel = reinterpret_cast<CUkernel>(function(module, "nothing"));
  auto home = reinterpret_cast<CUlibrary>(kernel);  // anything: it must not be left as it was
  EXPECT_EQ(call("cuKernelGetLibrary", &home, kernel), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(home, nullptr);
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
  // The parameters are those of now, not of the replay.
  unsigned value = 7;
  void* parameters[] = {&words, &value};
  EXPECT_EQ(call("cuMemsetD32Async", words, 5U, std::size_t{16}, stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLaunchKernel", fill, 1U, 1U, 1U, 8U, 1U, 1U, 0U, stream, static_cast<void**>(parameters),
                 static_cast<void**>(nullptr)),
            CUDA_SUCCESS);
  value = 9;
  unsigned host[16] = {};
  ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(host), words, sizeof host), CUDA_SUCCESS);
  EXPECT_EQ(host[0], 1U) << "done while it was captured";
  ASSERT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphInstantiateWithFlags", &exec, graph, 0ULL), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphDestroy", graph), CUDA_SUCCESS);
  for (int replay = 0; replay < 2; ++replay) {
    ASSERT_EQ(call("cuMemsetD32", words, 1U, std::size_t{16}), CUDA_SUCCESS);
    ASSERT_EQ(call("cuGraphLaunch", exec, stream), CUDA_SUCCESS);
    ASSERT_EQ(call("cuMemcpyDtoH", static_cast<void*>(host), words, sizeof host), CUDA_SUCCESS);
    EXPECT_EQ(host[0], 7U);
    EXPECT_EQ(host[15], 5U);
  }
  EXPECT_EQ(call("cuGraphExecDestroy", exec), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphLaunch", exec, stream), CUDA_ERROR_INVALID_HANDLE);
  // Waiting for it spoils a capture.
  ASSERT_EQ(call("cuStreamBeginCapture", stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(call("cuStreamSynchronize", stream), CUDA_SUCCESS);
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
