// What the driver makes of images: modules and libraries, and the reasons why not.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "vgpu/driver/loaded_driver.hpp"

namespace flashmoe::vgpu::driver {
namespace {

TEST_F(Driver, RefusesPtxForNewerTargets) {
  for (const char* target : {"sm_90", "sm_90a", "sm_80a"}) {
    const std::string text =
        std::string(".version 9.0\n.target ") + target + "\n.address_size 64\n.entry k() { ret; }\n";
    CUmodule module = nullptr;
    EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(text.c_str())), CUDA_ERROR_INVALID_PTX)
        << target;
  }
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

// PyCUDA reads as many characters of the log as its size says, whatever the answer was.
TEST_F(Driver, ALinkSaysWhyInTheLogThatItWasGiven) {
  char log[400];
  std::fill_n(log, sizeof log, '\xeb');
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUlinkState link = nullptr;
  ASSERT_EQ(call("cuLinkCreate_v2", 2U, static_cast<int*>(options), static_cast<void**>(values), &link), CUDA_SUCCESS);
  EXPECT_EQ(values[1], nullptr) << "nothing to say yet";
  EXPECT_STREQ(log, "");
  const auto add = [&](int type, const char* name) {
    return call("cuLinkAddData_v2", link, type, const_cast<char*>(idle), std::strlen(idle) + 1, name, 0U,
                static_cast<int*>(nullptr), static_cast<void**>(nullptr));
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(add(CU_JIT_INPUT_LIBRARY, "libmine.a"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("libmine.a"), std::string::npos);
  EXPECT_NE(std::strstr(log, "libmine.a"), nullptr) << log;
  EXPECT_EQ(reinterpret_cast<std::size_t>(values[1]), std::strlen(log));
  EXPECT_EQ(add(CU_JIT_INPUT_LIBRARY, "/toolkit/libcudadevrt.a"), CUDA_SUCCESS)
      << "the part of it that is written here";
  EXPECT_EQ(add(CU_JIT_INPUT_PTX, "idle"), CUDA_SUCCESS);
  void* image = nullptr;
  std::size_t bytes = 0;
  CUmodule module = nullptr;
  ASSERT_EQ(call("cuLinkComplete", link, &image, &bytes), CUDA_SUCCESS);
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(image)), CUDA_SUCCESS);
  EXPECT_EQ(launch(function(module, "nothing"), 1, 32, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLinkDestroy", link), CUDA_SUCCESS);
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

TEST_F(Driver, AModulesFunctionHasNoLibrary) {
  CUmodule module = nullptr;
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(idle)), CUDA_SUCCESS);
  const auto kernel = reinterpret_cast<CUkernel>(function(module, "nothing"));
  auto home = reinterpret_cast<CUlibrary>(kernel);  // anything: it must not be left as it was
  EXPECT_EQ(call("cuKernelGetLibrary", &home, kernel), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(home, nullptr);
}

}  // namespace
}  // namespace flashmoe::vgpu::driver
