// What the C ABI promises at the edges, on the GPU: rows that see nothing, values nobody may see, sizes of zero, every
// head size, every tail, and errors that help.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "plan/planner.hpp"
#include "support/judge.hpp"

namespace flashmoe::testing {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int32_t tiles[] = {16, 32, 64, 128};

// What the driver says to people.
const std::string& log_path() {
  static const struct File {
    std::string path = (std::filesystem::temp_directory_path() / ("flashmoe-log-" + std::to_string(getpid()))).string();
    ~File() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  } file;
  return file.path;
}

const Gpu& contract_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);  // no test here asks what the planner chooses
    setenv("VGPU_LOG", log_path().c_str(), 1);
    return Gpu();
  }();
  return only;
}

// Right, nothing else written, no finding.
void expect_right(AttentionCase& one, const fms_plan_options& options) {
  const OracleAnswer oracle(one);
  one.reset_outputs();
  const RunResult result = contract_gpu().run(one, &options);
  ASSERT_EQ(result.status, FMS_OK) << to_string(result.error) << "\n  " << one.describe();
  EXPECT_EQ(judge(one, oracle).complaint, "") << one.describe();
  EXPECT_FALSE(one.stray_write().has_value()) << *one.stray_write();
  const auto findings = contract_gpu().findings();
  EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600) << "\n  " << one.describe();
}

// The library has a cubin for the device and PTX behind it: that this driver takes the second is nobody's trouble.
TEST(GpuContract, LoadingAKernelMakesNoNoise) {
  AttentionCase one = normal_case(simple_problem(FMS_F16, {1, 1, 1, 16, 16, 64}));
  expect_right(one, plan_options(0, 1, 0));
  std::ifstream file(log_path());
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(said.find("cubin"), std::string::npos) << said;
}

// ---- rows and keys -------------------------------------------------------------------------------------------------

// Causal with fewer keys than queries: the first rows see none.
TEST(GpuContract, ARowThatSeesNothingIsZeroAndMinusInfinity) {
  for (const int32_t q_tile : tiles) {
    for (const int32_t splits : {1, 3}) {
      fms_attention_problem problem = simple_problem(FMS_F16, {1, 2, 1, 150, 20, 64});
      problem.window_right = 0;
      AttentionCase one = normal_case(problem);
      expect_right(one, plan_options(0, splits, q_tile));
      for (int64_t h = 0; h < 2; ++h)
        for (const int64_t i : {0, 70, 129}) {
          EXPECT_EQ(one.lse_value(one.lse_offset(0, h, i)), -std::numeric_limits<float>::infinity());
          for (int64_t d = 0; d < 64; ++d) EXPECT_EQ(one.o_value(one.o_offset(0, h, i) + d), 0.0);
        }
      EXPECT_TRUE(std::isfinite(one.lse_value(one.lse_offset(0, 0, 130))));
    }
  }
}

// A tile's queries are read before its rows are written, and no other tile reads them.
TEST(GpuContract, OMayBeQ) {
  for (const int32_t q_tile : tiles) {
    for (const int32_t splits : {1, 3}) {
      const fms_plan_options options = plan_options(0, splits, q_tile);
      AttentionCase one = normal_case(simple_problem(FMS_F16, {1, 4, 2, 150, 200, 64}));
      expect_right(one, options);
      const std::span<const uint8_t> expected = one.buffers()[AttentionCase::kOutputBuffer];
      fms_attention_plan plan;
      ASSERT_EQ(fms_attention_plan_make(contract_gpu().context(), &one.problem(), &options, &plan, nullptr), FMS_OK);
      const DeviceCase there(contract_gpu(), one);
      fms_attention_args args = there.args();
      args.o = const_cast<void*>(args.q);
      const runtime::Buffer workspace =
          must(runtime::Buffer::create(contract_gpu().device(), std::max<std::size_t>(plan.workspace_bytes, 1)));
      void* memory = plan.workspace_bytes == 0 ? nullptr : reinterpret_cast<void*>(workspace.address());
      fms_error error{};
      ASSERT_EQ(
          fms_attention_run(contract_gpu().context(), &plan, &args, memory, plan.workspace_bytes, nullptr, &error),
          FMS_OK)
          << to_string(error);
      must(contract_gpu().device()->synchronize());
      AttentionCase back = normal_case(one.problem());
      there.copy_back(back);
      EXPECT_TRUE(std::ranges::equal(back.buffers().front(), expected)) << q_tile << " rows, " << splits << " splits";
      EXPECT_TRUE(contract_gpu().findings().empty());
    }
  }
}

TEST(GpuContract, NoKeysGiveZeroAndTheSink) {
  for (const bool has_sinks : {false, true})
    for (const int32_t splits : {1, 4}) {
      fms_attention_problem problem = simple_problem(FMS_BF16, {2, 2, 1, 5, 0, 64});
      if (has_sinks) problem.features |= FMS_SINKS;
      AttentionCase one = normal_case(problem);
      expect_right(one, plan_options(0, splits, 0));
    }
  // Some sequences of the batch have none.
  fms_attention_problem lengths = simple_problem(FMS_F16, {3, 2, 1, 5, 100, 64});
  lengths.features |= FMS_KV_LENGTHS;
  AttentionCase one = normal_case(lengths, 1, {{}, {}, {0, 100, 1}, {}});
  for (const int32_t q_tile : tiles) expect_right(one, plan_options(0, 1, q_tile));
}

// Keys that a row does not see may hold anything. Beyond a window, beyond the diagonal, beyond a length, in whole
// blocks and within one.
TEST(GpuContract, WhatIsNotSeenDoesNotMatter) {
  for (const double poison : {nan_value, infinity, -infinity}) {
    for (const int32_t q_tile : tiles) {
      for (const int64_t head_dim : {64, 72}) {
        SCOPED_TRACE(::testing::Message() << poison << ", " << q_tile << " rows, head size " << head_dim);
        fms_attention_problem problem = simple_problem(FMS_F16, {1, 1, 1, 30, 400, head_dim});
        problem.window_left = 20;
        problem.window_right = 3;  // query 0 is at key 370 and sees from 350 on
        AttentionCase one = normal_case(problem);
        for (const int64_t key : {0, 200, 349})
          for (const Tensor tensor : {Tensor::kK, Tensor::kV})
            one.set(tensor, (tensor == Tensor::kK ? one.k_offset(0, 0, key) : one.v_offset(0, 0, key)) + 3, poison);
        // Seen by some rows: those are not finite in that column, the others are what they were.
        one.set(Tensor::kV, one.v_offset(0, 0, 390) + 5, poison);
        expect_right(one, plan_options(0, 1, q_tile));
        expect_right(one, plan_options(0, 3, 16));
      }
    }
  }
}

TEST(GpuContract, AVisibleNanMakesTheRowNan) {
  for (const int64_t key : {3, 100, 290}) {
    for (const int32_t splits : {1, 4}) {
      AttentionCase one = normal_case(simple_problem(FMS_BF16, {1, 1, 1, 20, 300, 64}));
      one.set(Tensor::kK, one.k_offset(0, 0, key), nan_value);
      for (const int32_t q_tile : tiles) expect_right(one, plan_options(0, splits, q_tile));
      AttentionCase two = normal_case(simple_problem(FMS_F16, {1, 1, 1, 20, 300, 64}));
      two.set(Tensor::kV, two.v_offset(0, 0, key) + 9, infinity);
      for (const int32_t q_tile : tiles) expect_right(two, plan_options(0, splits, q_tile));
      AttentionCase three = normal_case(simple_problem(FMS_F16, {1, 1, 1, 20, 300, 64}));
      three.set(Tensor::kQ, three.q_offset(0, 0, 7) + 1, nan_value);
      for (const int32_t q_tile : tiles) expect_right(three, plan_options(0, splits, q_tile));
    }
  }
}

TEST(GpuContract, SinksOfEverySizeAndOfMinusInfinity) {
  for (const double sink : {-infinity, -200.0, 0.0, 90.0}) {
    for (const int32_t splits : {1, 3}) {
      fms_attention_problem problem = simple_problem(FMS_F16, {1, 4, 2, 40, 25, 64});
      problem.window_right = 0;  // the first rows have nothing but the sink
      problem.features |= FMS_SINKS;
      Random random(5);
      AttentionCase one(problem, {}, [&](Tensor tensor) { return tensor == Tensor::kSinks ? sink : random.normal(); });
      for (const int32_t q_tile : tiles) expect_right(one, plan_options(0, splits, q_tile));
    }
  }
}

TEST(GpuContract, EveryBiasOfMinusInfinityLeavesARowWithoutWeight) {
  for (const int32_t q_tile : {16, 32, 64}) {
    CoreProblem core{"", simple_problem(FMS_F16, {1, 2, 1, 20, 200, 64}), {}, plan_options(0, 1, q_tile)};
    add_bias(core, FMS_F32);
    AttentionCase one = core.with_data();
    for (int64_t key = 0; key < 200; ++key) {
      one.set(Tensor::kBias, one.bias_offset(0, 0, 4, key), -infinity);
      if (key != 150) one.set(Tensor::kBias, one.bias_offset(0, 1, 9, key), -infinity);
    }
    expect_right(one, core.options);
    expect_right(one, plan_options(0, 4, q_tile));
    // Nor do values matter that would make other rows NaN, in a block that all rows see or in an edge.
    for (const int64_t key : {20, 197}) {
      one.set(Tensor::kV, one.v_offset(0, 0, key) + 3, std::numeric_limits<double>::quiet_NaN());
      expect_right(one, core.options);
      expect_right(one, plan_options(0, 4, q_tile));
    }
  }
}

TEST(GpuContract, ScalesOfZeroBelowAndFarAboveOne) {
  for (const float scale : {0.0F, -0.125F, 1e-4F, 30.0F})
    for (const int32_t q_tile : {16, 64}) {
      fms_attention_problem problem = simple_problem(FMS_BF16, {1, 1, 1, 20, 100, 64});
      problem.softmax_scale = scale;
      AttentionCase one = normal_case(problem);
      expect_right(one, plan_options(0, 1, q_tile));
      expect_right(one, plan_options(0, 3, q_tile));
    }
}

// ---- sizes ---------------------------------------------------------------------------------------------------------

TEST(GpuContract, NothingToDoIsDoneOnAnyStream) {
  runtime::cuda::StreamHandle stream = nullptr;
  ASSERT_EQ(contract_gpu().driver().call().stream_create(&stream, 0), runtime::cuda::success);
  static_cast<void>(contract_gpu().reports());
  for (const Shape& shape : {Shape{0, 4, 2, 5, 9, 64}, Shape{2, 4, 2, 0, 9, 64}, Shape{0, 1, 1, 0, 0, 1}}) {
    const fms_attention_problem problem = simple_problem(FMS_BF16, shape);
    fms_attention_plan plan;
    fms_error error{};
    ASSERT_EQ(fms_attention_plan_make(contract_gpu().context(), &problem, nullptr, &plan, &error), FMS_OK)
        << to_string(error);
    EXPECT_EQ(plan.family, FMS_KERNEL_EMPTY);
    fms_attention_args args{};
    args.struct_size = sizeof args;
    for (fms_stream each : {static_cast<fms_stream>(nullptr), static_cast<fms_stream>(stream)})
      EXPECT_EQ(fms_attention_run(contract_gpu().context(), &plan, &args, nullptr, 0, each, &error), FMS_OK)
          << to_string(error);
  }
  EXPECT_TRUE(contract_gpu().reports().empty()) << "nothing was launched";
  EXPECT_EQ(contract_gpu().driver().call().stream_destroy(stream), runtime::cuda::success);
}

// The tile goes round, so that each class meets every remainder of its own head sizes. Those that no listed kernel
// holds in a class go to the class that has them all.
TEST(GpuContract, EveryHeadSizeFrom1To256) {
  for (int64_t head_dim = 1; head_dim <= 256; ++head_dim) {
    const fms_dtype dtype = head_dim % 2 == 0 ? FMS_F16 : FMS_BF16;
    fms_attention_problem problem = simple_problem(dtype, {1, 1, 1, 18, 70, head_dim});
    if (head_dim % 3 == 0) problem.window_right = 0;
    const bool has_all_tiles = head_dim <= 128;
    const int32_t q_tile = has_all_tiles ? tiles[head_dim % 3] : tiles[head_dim % 2 * 2];
    AttentionCase one = normal_case(problem, static_cast<uint64_t>(head_dim));
    expect_right(one, plan_options(0, head_dim % 5 == 0 ? 2 : 1, q_tile));
    if (HasFailure()) return;
  }
}

// Of the longest heads blocks come piece by piece, and the pieces are different ones for each pair of sizes: slices of
// 64 elements of keys, of 48 or of 16, an even or an odd number of them, values of rows that many or few threads copy.
// Values that some rows may not see are wild, in each part of the last block.
TEST(GpuContract, PiecesOfEverySize) {
  constexpr struct {
    int64_t dim, value_dim;
  } sizes[] = {{256, 256}, {248, 248}, {251, 251}, {192, 256}, {144, 256}, {128, 256}, {64, 256},
               {80, 256},  {160, 256}, {240, 256}, {256, 16},  {256, 64},  {256, 96}};
  for (const auto& [dim, value_dim] : sizes) {
    CoreProblem core{"", simple_problem(dim % 3 == 0 ? FMS_BF16 : FMS_F16, {1, 1, 1, 70, 200, dim}), {}, {}};
    core.problem.window_right = 0;
    set_value_dim(core, value_dim);
    AttentionCase one = normal_case(core.problem, static_cast<uint64_t>(dim + value_dim));
    expect_right(one, plan_options(0, 1, 64));
    for (const int64_t key : {140, 150, 160, 176, 195}) {
      one.set(Tensor::kV, one.v_offset(0, 0, key) + key % value_dim, key % 32 == 0 ? infinity : nan_value);
    }
    expect_right(one, plan_options(0, 1, 64));
    expect_right(one, plan_options(0, 2, 64));
    if (HasFailure()) return;
  }
}

// A grid has at most 65,535 in y and z. One key each: it is the numbers of CTAs that are looked at. For the night.
TEST(GpuContract, DISABLED_MoreHeadsThanAGridHasRows) {
  AttentionCase one = normal_case(simple_problem(FMS_F16, {257, 256, 256, 1, 1, 8}), 5);
  expect_right(one, plan_options(0, 1, 16));
}

// 1 to 257 queries, 1 to 257 keys, never the same pair of remainders twice.
TEST(GpuContract, EveryTailFrom1To257) {
  for (int64_t length = 1; length <= 257; ++length) {
    const int64_t other = (length * 97) % 257 + 1;
    fms_attention_problem problem = simple_problem(length % 2 == 0 ? FMS_F16 : FMS_BF16, {1, 1, 1, length, other, 64});
    if (length % 3 != 0) problem.window_right = 0;
    AttentionCase one = normal_case(problem, static_cast<uint64_t>(length));
    expect_right(one, plan_options(0, length % 4 == 0 ? 3 : 1, tiles[length % 4]));
    if (HasFailure()) return;
  }
}

// ---- errors --------------------------------------------------------------------------------------------------------

struct Prepared {
  AttentionCase one;
  DeviceCase there;
  fms_attention_args args;
  fms_attention_plan plan{};
  fms_error error{};

  explicit Prepared(const fms_plan_options& options)
      : one(normal_case(simple_problem(FMS_F16, {1, 2, 1, 20, 100, 64}))),
        there(contract_gpu(), one),
        args(there.args()) {
    EXPECT_EQ(fms_attention_plan_make(contract_gpu().context(), &one.problem(), &options, &plan, &error), FMS_OK);
  }
};

TEST(GpuContract, AWorkspaceThatDoesNotDoIsRefused) {
  Prepared prepared(plan_options(0, 3, 16));
  ASSERT_GT(prepared.plan.workspace_bytes, 0U);
  auto made = runtime::Buffer::create(contract_gpu().device(), prepared.plan.workspace_bytes + 64);
  ASSERT_TRUE(made);
  auto* const memory = reinterpret_cast<char*>(made->address());
  const auto run = [&](void* workspace, std::size_t bytes) {
    return fms_attention_run(contract_gpu().context(), &prepared.plan, &prepared.args, workspace, bytes, nullptr,
                             &prepared.error);
  };
  EXPECT_EQ(run(memory, prepared.plan.workspace_bytes - 1), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(prepared.error.argument, "workspace");
  EXPECT_EQ(run(nullptr, prepared.plan.workspace_bytes), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(run(memory + 8, prepared.plan.workspace_bytes), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(run(memory, prepared.plan.workspace_bytes), FMS_OK) << to_string(prepared.error);
}

TEST(GpuContract, Fp32IsRefused) {
  const fms_attention_problem problem = simple_problem(FMS_F32, {1, 1, 1, 8, 8, 64});
  fms_attention_plan plan;
  fms_error error{};
  EXPECT_EQ(fms_attention_plan_make(contract_gpu().context(), &problem, nullptr, &plan, &error), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "problem.dtype");
  EXPECT_NE(std::string(error.message).find("fp16"), std::string::npos) << error.message;
}

TEST(GpuContract, APlanOfAnotherDeviceIsRefused) {
  const Prepared prepared(plan_options(0, 1, 16));
  const Context cpu = make_context(FMS_ISA_SCALAR);
  fms_error error{};
  EXPECT_EQ(fms_attention_run(cpu.get(), &prepared.plan, &prepared.args, nullptr, 0, nullptr, &error),
            FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "plan.device_kind");
  fms_attention_plan of_cpu;
  ASSERT_EQ(fms_attention_plan_make(cpu.get(), &prepared.one.problem(), nullptr, &of_cpu, nullptr), FMS_OK);
  EXPECT_EQ(fms_attention_run(contract_gpu().context(), &of_cpu, &prepared.args, nullptr, 0, nullptr, &error),
            FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "plan.device_kind");
}

TEST(GpuContract, APlanOfALargerGpuIsRefused) {
  Prepared prepared(plan_options(0, 1, 16));
  prepared.plan.sm_count = 132;
  prepared.plan.fingerprint = plan::fingerprint_of(prepared.plan);
  EXPECT_EQ(
      fms_attention_run(contract_gpu().context(), &prepared.plan, &prepared.args, nullptr, 0, nullptr, &prepared.error),
      FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(prepared.error.argument, "plan.sm_count");
}

TEST(GpuContract, ATamperedPlanIsRefused) {
  Prepared prepared(plan_options(0, 1, 16));
  for (const auto tamper :
       {+[](fms_attention_plan& p) { p.instance += 1; }, +[](fms_attention_plan& p) { p.sm_count = 1; },
        +[](fms_attention_plan& p) { p.work_items *= 2; }, +[](fms_attention_plan& p) { p.kernel_head_dim = 32; },
        +[](fms_attention_plan& p) { p.threads = 1024; }}) {
    fms_attention_plan plan = prepared.plan;
    tamper(plan);
    EXPECT_EQ(fms_attention_run(contract_gpu().context(), &plan, &prepared.args, nullptr, 0, nullptr, &prepared.error),
              FMS_INVALID_ARGUMENT);
    EXPECT_STREQ(prepared.error.argument, "plan.fingerprint");
  }
}

// Both where a kernel is there already and where it has yet to be loaded.
TEST(GpuContract, WithoutACurrentContextTheErrorSaysSo) {
  const Prepared prepared(plan_options(0, 1, 16));
  const runtime::cuda::Functions& call = contract_gpu().driver().call();
  runtime::cuda::ContextHandle mine = nullptr;
  ASSERT_EQ(call.context_pop(&mine), runtime::cuda::success);
  fms_error error{};
  const fms_status status =
      fms_attention_run(contract_gpu().context(), &prepared.plan, &prepared.args, nullptr, 0, nullptr, &error);
  fms_error plan_error{};
  fms_attention_plan plan;
  const fms_attention_problem never_seen = simple_problem(FMS_BF16, {1, 1, 1, 8, 8, 192});
  const fms_status plan_status =
      fms_attention_plan_make(contract_gpu().context(), &never_seen, nullptr, &plan, &plan_error);
  ASSERT_EQ(call.context_push(mine), runtime::cuda::success);
  EXPECT_EQ(status, FMS_DEVICE_ERROR);
  EXPECT_NE(std::string(error.message).find("CONTEXT"), std::string::npos) << error.message;
  if (plan_status != FMS_OK) {
    EXPECT_EQ(plan_status, FMS_DEVICE_ERROR);
    EXPECT_NE(std::string(plan_error.message).find("CONTEXT"), std::string::npos) << plan_error.message;
  }
}

TEST(GpuContract, ADeviceThatIsNotThereIsRefused) {
  fms_context_options options{};
  options.struct_size = sizeof options;
  options.device_kind = FMS_DEVICE_CUDA;
  for (const int32_t ordinal : {-1, 64}) {
    options.device_index = ordinal;
    fms_context* context = nullptr;
    fms_error error{};
    EXPECT_EQ(fms_context_create(&options, &context, &error), FMS_INVALID_ARGUMENT);
    EXPECT_STREQ(error.argument, "options.device_index");
    EXPECT_EQ(context, nullptr);
  }
}

TEST(GpuContract, WhatRanIsWhatThePlanSays) {
  for (const int32_t q_tile : tiles) {
    AttentionCase one = normal_case(simple_problem(FMS_F16, {1, 1, 1, 40, 100, 64}));
    const fms_plan_options options = plan_options(0, 2, q_tile);
    const RunResult result = contract_gpu().run(one, &options);
    ASSERT_EQ(result.status, FMS_OK) << to_string(result.error);
    EXPECT_EQ(result.info.family, FMS_KERNEL_CUDA_FORWARD);
    EXPECT_EQ(result.info.threads, result.plan.threads);
    EXPECT_EQ(result.info.kv_splits, 2);
  }
}

}  // namespace
}  // namespace flashmoe::testing
