// A library without compiled kernels, as `flashmoe-science` is alone: NVRTC makes each when it first runs. The test's
// environment puts libflashmoe_without_images.so in front; on the virtual GPU with every check on, judged by the
// oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cuda/gpu_run.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& imageless_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);
    return Gpu();
  }();
  return only;
}

TEST(GpuWithoutImages, TheLibraryHasNone) {
  EXPECT_EQ(fms_cuda_images(nullptr, 0), 0U) << "not the library of this test";
  EXPECT_EQ(std::string(fms_why_no_cuda_images()).rfind("no CUDA images here: there is no /", 0), 0U)
      << fms_why_no_cuda_images();
}

// Head sizes that instances.def has: with images they would not be compiled.
TEST(GpuWithoutImages, AttentionIsCompiledWhenItRuns) {
  const std::pair<fms_dtype, Shape> problems[] = {{FMS_F16, {1, 2, 2, 70, 70, 64}}, {FMS_BF16, {2, 4, 1, 1, 300, 128}}};
  for (const auto& [dtype, shape] : problems) {
    AttentionCase one = normal_case(simple_problem(dtype, shape), 7);
    const RunResult ran = imageless_gpu().run(one);
    ASSERT_EQ(ran.status, FMS_OK) << to_string(ran.error);
    EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "") << one.describe();
    fms_kernel_image image{};
    image.struct_size = sizeof image;
    ASSERT_EQ(fms_attention_image(imageless_gpu().context(), &ran.plan, &image, nullptr), FMS_OK);
    EXPECT_EQ(image.kind, FMS_IMAGE_COMPILED) << image.kernel;
  }
  EXPECT_TRUE(imageless_gpu().findings().empty());
}

// Two states that are the same: their union has the same values and twice the weight.
TEST(GpuWithoutImages, MergingIsCompiled) {
  constexpr int64_t rows = 3, width = 64;
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, FMS_F32, 1, 1, rows, width);
  std::vector<float> values(rows * width), sums(rows, 1.5F);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 8;
  const auto there = [](std::vector<float>& from) {
    runtime::Buffer buffer = must(runtime::Buffer::create(imageless_gpu().device(), from.size() * sizeof(float)));
    must(buffer.write(std::as_bytes(std::span(from))));
    return buffer;
  };
  const runtime::Buffer o = there(values), lse = there(sums);
  std::vector<float> nothing(values.size(), NAN);
  const runtime::Buffer to = there(nothing), to_lse = there(nothing);
  const auto at = [](const runtime::Buffer& buffer) { return reinterpret_cast<float*>(buffer.address()); };
  fms_error error{};
  ASSERT_EQ(fms_merge_states(imageless_gpu().context(), &problem, at(o), at(lse), at(o), at(lse), at(to), at(to_lse),
                             nullptr, &error),
            FMS_OK)
      << to_string(error);
  must(imageless_gpu().device()->synchronize());
  must(to.read(std::as_writable_bytes(std::span(nothing))));
  EXPECT_EQ(nothing, values);
  must(to_lse.read(std::as_writable_bytes(std::span(nothing))));
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(nothing[i], sums[i] + std::log(2.0F), 1e-6F);
}

}  // namespace
}  // namespace flashmoe::testing
