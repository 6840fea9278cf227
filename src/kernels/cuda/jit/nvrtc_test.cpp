// The compiler behind its loader: images, located errors, and what is said when it is not there. The toolkit belongs to
// a development machine, so without an NVRTC these tests fail.
#include "kernels/cuda/jit/nvrtc.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/jit/jit_testing.hpp"

namespace flashmoe::cuda {
namespace {

using testing::ended_well;
using testing::start_process;

constexpr Source small_program[] = {
    {"folder/main.cu", "#include \"folder/value.hpp\"\nextern \"C\" __global__ void one(int* to) { *to = value; }\n"},
    {"folder/value.hpp", "#pragma once\nconstexpr int value = VALUE;\n"},
};

Result<std::vector<char>> compile(const std::vector<std::string>& options, ImageKind kind) {
  auto nvrtc = Nvrtc::open();
  if (!nvrtc) return nvrtc.error();
  return nvrtc->compile("folder/main.cu", small_program, options, kind);
}

TEST(Nvrtc, MakesACubin) {
  const auto image = compile({"--std=c++20", "--gpu-architecture=sm_89", "-DVALUE=7"}, ImageKind::cubin);
  ASSERT_TRUE(image) << image.error().to_string();
  ASSERT_GT(image->size(), 64U);
  EXPECT_EQ(std::string(image->data(), 4),
            "\x7f"
            "ELF");
}

TEST(Nvrtc, MakesPtxThatEndsInAZeroByte) {
  const auto image = compile({"--std=c++20", "--gpu-architecture=compute_80", "-DVALUE=7"}, ImageKind::ptx);
  ASSERT_TRUE(image) << image.error().to_string();
  ASSERT_EQ(image->back(), '\0');
  const std::string text = image->data();
  EXPECT_NE(text.find(".target sm_80"), std::string::npos);
  EXPECT_NE(text.find(".entry one"), std::string::npos);
}

TEST(Nvrtc, AnErrorNamesItsPlace) {
  const auto image = compile({"--std=c++20", "--gpu-architecture=sm_89", "-DVALUE=nothing"}, ImageKind::cubin);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().file, "folder/value.hpp");
  EXPECT_EQ(image.error().line, 2);
  EXPECT_NE(image.error().message.find("\"nothing\" is undefined"), std::string::npos) << image.error().message;
}

TEST(Nvrtc, AnUnknownOptionIsAnError) {
  const auto image = compile({"--no-such-option"}, ImageKind::cubin);
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message.find("no-such-option"), std::string::npos) << image.error().message;
}

TEST(Nvrtc, KnowsItsArchitectures) {
  const auto nvrtc = Nvrtc::open();
  ASSERT_TRUE(nvrtc) << nvrtc.error().to_string();
  EXPECT_TRUE(nvrtc->can_compile_for(80));
  EXPECT_TRUE(nvrtc->can_compile_for(89));
  EXPECT_FALSE(nvrtc->can_compile_for(0));
  EXPECT_FALSE(nvrtc->can_compile_for(9999));
}

// What open() says with FLASHMOE_NVRTC set; in a process of its own, for the environment's sake.
void expect_refused(const char* library, const std::vector<std::string>& said) {
  const pid_t child = start_process([&] {
    setenv("FLASHMOE_NVRTC", library, 1);
    const auto nvrtc = Nvrtc::open();
    if (nvrtc) return false;
    bool is_right = true;
    for (const std::string& part : said) {
      const bool is_there = nvrtc.error().to_string().find(part) != std::string::npos;
      if (!is_there) fprintf(stderr, "'%s' lacks '%s'\n", nvrtc.error().to_string().c_str(), part.c_str());
      is_right = is_right && is_there;
    }
    return is_right;
  });
  EXPECT_TRUE(ended_well(child)) << library;
}

TEST(Nvrtc, SaysWhatItLookedForAndTheRemedy) {
  expect_refused("/no/such/libnvrtc.so",
                 {"looked for: /no/such/libnvrtc.so (", "No such file", "nvidia-cuda-nvrtc", "FLASHMOE_NVRTC"});
}

TEST(Nvrtc, RefusesAnotherLibrary) {
  expect_refused("libm.so.6", {"libm.so.6 is no NVRTC", "nvrtcGetErrorString"});
}

}  // namespace
}  // namespace flashmoe::cuda
