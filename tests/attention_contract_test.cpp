// What the C ABI promises around the arithmetic: errors that help, plans that cannot be forged, the ISA that was asked.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A C caller can store any integer in an enum.
template <typename Enum>
void set_raw(Enum& field, int32_t value) {
  static_assert(sizeof field == sizeof value);
  std::memcpy(&field, &value, sizeof value);
}

fms_attention_problem good_problem(uint32_t features = FMS_LSE) {
  fms_attention_problem problem = simple_problem(FMS_F16, {2, 8, 2, 5, 30, 64});
  problem.features = features;
  problem.bias_dtype = FMS_F32;
  problem.bias = {0, 0, 30, 1, 1};
  problem.kv_dtype = FMS_KV_F8_E4M3;
  if ((features & FMS_RAGGED_Q) != 0) {
    problem.total_q = 10;
    problem.q = problem.o = {0, 10 * 64, 64};
    problem.lse = {0, 10, 1};
  }
  if ((features & FMS_RAGGED_KV) != 0) {
    problem.total_kv = 60;
    problem.k = problem.v = {0, 60 * 64, 64};
  }
  if ((features & FMS_PAGED_KV) != 0) {
    problem.page_size = 8;
    problem.page_count = 8;
    problem.block_table_stride = 4;
    problem.k = problem.v = {2 * 8 * 64, 8 * 64, 64};
  }
  return problem;
}

// The argument is named; the message holds the value, and what is allowed where that is a number.
void expect_refusal(fms_status status, const fms_error& error, const std::string& argument, const std::string& value,
                    const std::string& allowed) {
  EXPECT_EQ(status, FMS_INVALID_ARGUMENT) << argument << ' ' << value;
  if (status == FMS_OK) {
    return;
  }
  EXPECT_EQ(error.code, status);
  EXPECT_EQ(std::string(error.argument), argument) << error.message;
  EXPECT_NE(std::string(error.message).find(value), std::string::npos) << argument << ": " << error.message;
  EXPECT_NE(std::string(error.message).find(allowed), std::string::npos) << argument << ": " << error.message;
  EXPECT_GE(std::strlen(error.message), 15u) << error.message;
}

// ---- problem ---------------------------------------------------------------------------------------------------

struct BadProblem {
  const char* argument;
  const char* value;
  const char* allowed;
  std::function<void(fms_attention_problem&)> spoil;
  uint32_t features = FMS_LSE;
};

const BadProblem kBadProblems[] = {
    {"problem.struct_size", "7", "", [](auto& p) { p.struct_size = 7; }},
    {"problem.dtype", "0", "", [](auto& p) { p.dtype = static_cast<fms_dtype>(0); }},
    {"problem.dtype", "99", "", [](auto& p) { set_raw(p.dtype, 99); }},
    {"problem.features", "", "", [](auto& p) { p.features |= 1u << 30; }},
    {"problem.features", "", "", [](auto& p) { p.features |= FMS_KV_LENGTHS; }, FMS_RAGGED_KV},
    {"problem.features", "", "", [](auto& p) { p.features |= FMS_PAGED_KV; }, FMS_RAGGED_KV},
    {"problem.features", "", "", [](auto& p) { p.features |= FMS_Q_LENGTHS; }, FMS_RAGGED_Q},
    {"problem.o.seq", "63", "64", [](auto& p) { p.o.seq = 63; }},
    {"problem.batch", "-1", "0", [](auto& p) { p.batch = -1; }},
    {"problem.q_heads", "0", "", [](auto& p) { p.q_heads = 0; }},
    {"problem.kv_heads", "0", "", [](auto& p) { p.kv_heads = 0; }},
    {"problem.kv_heads", "3", "8", [](auto& p) { p.kv_heads = 3; }},
    {"problem.kv_heads", "16", "8", [](auto& p) { p.kv_heads = 16; }},
    {"problem.q_len", "-4", "", [](auto& p) { p.q_len = -4; }},
    {"problem.kv_len", "-2", "", [](auto& p) { p.kv_len = -2; }},
    {"problem.head_dim", "0", "576", [](auto& p) { p.head_dim = 0; }},
    {"problem.head_dim", "577", "576", [](auto& p) { p.head_dim = 577; }},
    {"problem.value_dim", "0", "576", [](auto& p) { p.value_dim = 0; }},
    {"problem.value_dim", "577", "576", [](auto& p) { p.value_dim = 577; }},
    {"problem.o.seq", "64", "65", [](auto& p) { p.value_dim = 65; }},
    {"problem.softmax_scale", "nan", "finite", [](auto& p) { p.softmax_scale = kNaN; }},
    {"problem.softmax_scale", "inf", "finite", [](auto& p) { p.softmax_scale = kInfinity; }},
    {"problem.softcap", "-1", "", [](auto& p) { p.softcap = -1; }},
    {"problem.softcap", "nan", "", [](auto& p) { p.softcap = kNaN; }},
    {"problem.window_left", "-2", "-1", [](auto& p) { p.window_left = -2; }},
    {"problem.window_right", "-7", "-1", [](auto& p) { p.window_right = -7; }},
    {"problem.bias_dtype", "0", "", [](auto& p) { p.bias_dtype = static_cast<fms_dtype>(0); }, FMS_BIAS},
    {"problem.bias.group", "-1", "", [](auto& p) { p.bias.group = -1; }, FMS_BIAS},
    {"problem.bias2_dtype", "0", "", [](auto& p) { p.bias2_dtype = static_cast<fms_dtype>(0); }, FMS_BIAS2},
    {"problem.bias2.kv", "-1", "", [](auto& p) { p.bias2.kv = -1; }, FMS_BIAS2},
    {"problem.kv_dtype", "7", "1", [](auto& p) { set_raw(p.kv_dtype, 7); }, FMS_KV_SCALES},
    {"problem.mask.q", "-1", "", [](auto& p) { p.mask.q = -1; }, FMS_MASK},
    {"problem.mask.group", "-1", "", [](auto& p) { p.mask.group = -1; }, FMS_MASK},
    {"problem.mask", "", "", [](auto& p) { p.mask.batch = int64_t{1} << 57; }, FMS_MASK},
    {"problem.total_q", "-1", "", [](auto& p) { p.total_q = -1; }, FMS_RAGGED_Q},
    {"problem.total_kv", "-1", "", [](auto& p) { p.total_kv = -1; }, FMS_RAGGED_KV},
    {"problem.page_size", "0", "", [](auto& p) { p.page_size = 0; }, FMS_PAGED_KV},
    {"problem.page_count", "-1", "", [](auto& p) { p.page_count = -1; }, FMS_PAGED_KV},
    {"problem.block_table_stride", "3", "4", [](auto& p) { p.block_table_stride = 3; }, FMS_PAGED_KV},
};

TEST(AttentionContract, EveryBadProblemIsRefusedByName) {
  const Context context = make_context(FMS_ISA_AUTO);
  ASSERT_NE(context, nullptr);
  for (const BadProblem& bad : kBadProblems) {
    fms_attention_problem problem = good_problem(bad.features);
    fms_error error{};
    ASSERT_EQ(fms_attention_problem_check(&problem, &error), FMS_OK) << to_string(error);
    bad.spoil(problem);
    expect_refusal(fms_attention_problem_check(&problem, &error), error, bad.argument, bad.value, bad.allowed);
    error = {};
    fms_attention_plan plan;
    expect_refusal(fms_attention_plan_make(context.get(), &problem, nullptr, &plan, &error), error, bad.argument,
                   bad.value, bad.allowed);
    EXPECT_EQ(fms_attention_problem_check(&problem, nullptr), FMS_INVALID_ARGUMENT) << "error may be NULL";
  }
}

TEST(AttentionContract, SizesThatOverflowAreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (const auto& spoil : std::vector<std::function<void(fms_attention_problem&)>>{
           [](auto& p) { p.batch = kHuge; }, [](auto& p) { p.q_heads = kHuge - kHuge % 2; },
           [](auto& p) { p.q_len = kHuge; }, [](auto& p) { p.kv_len = kHuge; }, [](auto& p) { p.q.seq = kHuge; },
           [](auto& p) { p.batch = p.q_heads = p.kv_heads = p.q_len = p.kv_len = int64_t{1} << 40; }}) {
    fms_attention_problem problem = good_problem();
    spoil(problem);
    fms_error error{};
    EXPECT_EQ(fms_attention_problem_check(&problem, &error), FMS_INVALID_ARGUMENT);
    EXPECT_STRNE(error.argument, "");
  }
}

TEST(AttentionContract, NullPointersAreRefused) {
  const Context context = make_context(FMS_ISA_AUTO);
  const fms_attention_problem problem = good_problem();
  fms_attention_plan plan{};
  fms_error error{};
  EXPECT_EQ(fms_attention_problem_check(nullptr, &error), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(fms_attention_plan_make(nullptr, &problem, nullptr, &plan, &error), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(fms_attention_plan_make(context.get(), nullptr, nullptr, &plan, &error), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(fms_attention_plan_make(context.get(), &problem, nullptr, nullptr, &error), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(fms_context_create(nullptr, nullptr, &error), FMS_INVALID_ARGUMENT);
  ASSERT_EQ(fms_attention_plan_make(context.get(), &problem, nullptr, &plan, &error), FMS_OK);
  AttentionCase one = normal_case(problem);
  const fms_attention_args args = one.args();
  EXPECT_EQ(fms_attention_run(nullptr, &plan, &args, nullptr, 0, nullptr, &error), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(fms_attention_run(context.get(), nullptr, &args, nullptr, 0, nullptr, &error), FMS_INVALID_ARGUMENT);
  EXPECT_EQ(fms_attention_run(context.get(), &plan, nullptr, nullptr, 0, nullptr, &error), FMS_INVALID_ARGUMENT);
  fms_context_destroy(nullptr);
}

TEST(AttentionContract, OptionsAreChecked) {
  const Context context = make_context(FMS_ISA_AUTO);
  const fms_attention_problem problem = good_problem();
  const auto refused = [&](const char* argument, const char* value, const char* allowed, fms_plan_options options) {
    fms_attention_plan plan;
    fms_error error{};
    expect_refusal(fms_attention_plan_make(context.get(), &problem, &options, &plan, &error), error, argument, value,
                   allowed);
  };
  refused("options.threads", "-1", "", plan_options(-1, 0, 0));
  refused("options.kv_splits", "-3", "1024", plan_options(0, -3, 0));
  refused("options.kv_splits", "1025", "1024", plan_options(0, 1025, 0));
  refused("options.q_tile", "-2", "", plan_options(0, 0, -2));
  fms_plan_options wrong_size = plan_options(0, 0, 0);
  wrong_size.struct_size = 3;
  refused("options.struct_size", "3", "", wrong_size);
}

TEST(AttentionContract, AnErrorIsNotTouchedOnSuccess) {
  fms_error error, before;
  std::memset(static_cast<void*>(&error), 0xab, sizeof error);
  std::memcpy(static_cast<void*>(&before), &error, sizeof error);
  const fms_attention_problem problem = good_problem();
  ASSERT_EQ(fms_attention_problem_check(&problem, &error), FMS_OK);
  EXPECT_EQ(std::memcmp(&error, &before, sizeof error), 0);
}

// ---- run -------------------------------------------------------------------------------------------------------

struct Prepared {
  Context context = make_context(FMS_ISA_AUTO);
  AttentionCase one;
  fms_attention_plan plan{};
  FencedBuffer workspace;
  fms_attention_args args;

  explicit Prepared(const fms_attention_problem& problem, IndexArrays indices = {})
      : one(normal_case(problem, 1, std::move(indices))), args(one.args()) {
    fms_error error{};
    EXPECT_EQ(fms_attention_plan_make(context.get(), &problem, nullptr, &plan, &error), FMS_OK) << to_string(error);
    workspace = FencedBuffer(plan.workspace_bytes, Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
  }
  fms_status run(fms_error* error) const {
    return fms_attention_run(context.get(), &plan, &args, workspace.bytes() == 0 ? nullptr : workspace.data(),
                             workspace.bytes(), nullptr, error);
  }
};

TEST(AttentionContract, MissingPointersAreRefusedByName) {
  struct Missing {
    const char* argument;
    uint32_t features;
    std::function<void(fms_attention_args&)> remove;
  };
  const Missing missing[] = {
      {"args.q", FMS_LSE, [](auto& a) { a.q = nullptr; }},
      {"args.k", FMS_LSE, [](auto& a) { a.k = nullptr; }},
      {"args.v", FMS_LSE, [](auto& a) { a.v = nullptr; }},
      {"args.o", FMS_LSE, [](auto& a) { a.o = nullptr; }},
      {"args.lse", FMS_LSE, [](auto& a) { a.lse = nullptr; }},
      {"args.bias", FMS_BIAS, [](auto& a) { a.bias = nullptr; }},
      {"args.sinks", FMS_SINKS, [](auto& a) { a.sinks = nullptr; }},
      {"args.cu_q", FMS_RAGGED_Q, [](auto& a) { a.cu_q = nullptr; }},
      {"args.cu_kv", FMS_RAGGED_KV, [](auto& a) { a.cu_kv = nullptr; }},
      {"args.kv_lengths", FMS_KV_LENGTHS, [](auto& a) { a.kv_lengths = nullptr; }},
      {"args.block_table", FMS_PAGED_KV, [](auto& a) { a.block_table = nullptr; }},
      {"args.kv_starts", FMS_KV_STARTS, [](auto& a) { a.kv_starts = nullptr; }},
      {"args.mask", FMS_MASK, [](auto& a) { a.mask = nullptr; }},
      {"args.k_scales", FMS_KV_SCALES, [](auto& a) { a.k_scales = nullptr; }},
      {"args.v_scales", FMS_KV_SCALES, [](auto& a) { a.v_scales = nullptr; }},
      {"args.q_lengths", FMS_Q_LENGTHS, [](auto& a) { a.q_lengths = nullptr; }},
      {"args.struct_size", FMS_LSE, [](auto& a) { a.struct_size = 9; }},
  };
  const IndexArrays indices = {{0, 5, 10}, {0, 30, 60}, {30, 30}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 30}, {5, 0}};
  for (const Missing& one : missing) {
    Prepared prepared(good_problem(one.features), indices);
    fms_error error{};
    ASSERT_EQ(prepared.run(&error), FMS_OK) << to_string(error);
    one.remove(prepared.args);
    EXPECT_EQ(prepared.run(&error), FMS_INVALID_ARGUMENT) << one.argument;
    EXPECT_STREQ(error.argument, one.argument) << error.message;
  }
}

TEST(AttentionContract, KeysOfEightBitsHaveScalesAboveZero) {
  fms_attention_problem integers = good_problem(FMS_KV_SCALES);
  integers.kv_dtype = FMS_KV_I8;
  fms_error error{};
  EXPECT_EQ(fms_attention_problem_check(&integers, &error), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "problem.kv_dtype");
  for (const float bad : {0.0f, -1.0f, kInfinity, kNaN, 1e31f}) {
    for (const bool of_keys : {true, false}) {
      Prepared prepared(good_problem(FMS_KV_SCALES), {});
      const float scales[] = {1.0f, bad};
      (of_keys ? prepared.args.k_scales : prepared.args.v_scales) = scales;
      error = {};
      expect_refusal(prepared.run(&error), error, of_keys ? "args.k_scales[1]" : "args.v_scales[1]", "is ", "above 0");
    }
  }
}

TEST(AttentionContract, UnknownRunFlagsAreRefused) {
  Prepared prepared(good_problem());
  fms_error error{};
  prepared.args.flags = FMS_WORKSPACE_READY;
  EXPECT_EQ(prepared.run(&error), FMS_OK) << "of no use on the CPU, and no harm";
  for (const uint32_t flags : {2u, 1u << 31, 0xffffffffu}) {
    prepared.args.flags = flags;
    expect_refusal(prepared.run(&error), error, "args.flags", "0x", "0x1");
  }
}

TEST(AttentionContract, BadIndexArraysAreRefusedBeforeAnythingIsRead) {
  struct BadIndices {
    const char* argument;
    const char* value;
    uint32_t features;
    std::function<void(IndexArrays&)> spoil;
  };
  const BadIndices bad_indices[] = {
      {"args.cu_q", "4", FMS_RAGGED_Q,
       [](auto& a) {
         a.cu_q = {0, 5, 4};
       }},
      {"args.cu_q", "11", FMS_RAGGED_Q,
       [](auto& a) {
         a.cu_q = {1, 6, 11};
       }},
      {"args.cu_q", "6", FMS_RAGGED_Q,
       [](auto& a) {
         a.cu_q = {0, 6, 10};
       }},
      {"args.cu_q", "-1", FMS_RAGGED_Q,
       [](auto& a) {
         a.cu_q = {-1, 3, 8};
       }},
      {"args.cu_kv", "20", FMS_RAGGED_KV,
       [](auto& a) {
         a.cu_kv = {0, 30, 20};
       }},
      {"args.cu_kv", "61", FMS_RAGGED_KV,
       [](auto& a) {
         a.cu_kv = {1, 31, 61};
       }},
      {"args.kv_lengths", "31", FMS_KV_LENGTHS,
       [](auto& a) {
         a.kv_lengths = {3, 31};
       }},
      {"args.kv_lengths", "-1", FMS_KV_LENGTHS,
       [](auto& a) {
         a.kv_lengths = {-1, 30};
       }},
      {"args.kv_starts", "31", FMS_KV_STARTS,
       [](auto& a) {
         a.kv_starts = {0, 31};
       }},
      {"args.q_lengths", "-2", FMS_Q_LENGTHS,
       [](auto& a) {
         a.q_lengths = {-2, 5};
       }},
      {"args.block_table", "8", FMS_PAGED_KV, [](auto& a) { a.block_table[6] = 8; }},
      {"args.block_table", "-5", FMS_PAGED_KV, [](auto& a) { a.block_table[0] = -5; }},
  };
  for (const BadIndices& bad : bad_indices) {
    IndexArrays indices = {{0, 5, 10}, {0, 30, 60}, {30, 30}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 30}, {5, 0}};
    Prepared prepared(good_problem(bad.features), indices);
    bad.spoil(indices);
    prepared.args.cu_q = indices.cu_q.data();
    prepared.args.cu_kv = indices.cu_kv.data();
    prepared.args.kv_lengths = indices.kv_lengths.data();
    prepared.args.block_table = indices.block_table.data();
    prepared.args.kv_starts = indices.kv_starts.data();
    prepared.args.q_lengths = indices.q_lengths.data();
    const std::vector<uint8_t> before = prepared.one.output_bytes();
    fms_error error{};
    EXPECT_EQ(prepared.run(&error), FMS_INVALID_ARGUMENT) << bad.argument << ' ' << bad.value;
    EXPECT_EQ(std::string(error.argument).rfind(bad.argument, 0), 0u) << error.argument << ": " << error.message;
    EXPECT_NE(std::string(error.message).find(bad.value), std::string::npos) << error.message;
    EXPECT_EQ(prepared.one.output_bytes(), before) << "nothing was written";
  }
}

TEST(AttentionContract, AWorkspaceThatDoesNotDoIsRefused) {
  fms_attention_problem problem = good_problem();
  const Context context = make_context(FMS_ISA_AUTO);
  AttentionCase one = normal_case(problem);
  const fms_plan_options options = plan_options(2, 3, 0);  // splits need room for their partial results
  fms_attention_plan plan;
  ASSERT_EQ(fms_attention_plan_make(context.get(), &problem, &options, &plan, nullptr), FMS_OK);
  ASSERT_GT(plan.workspace_bytes, 0u);
  const FencedBuffer workspace(plan.workspace_bytes + 64, Fence::kBefore, 0);
  const fms_attention_args args = one.args();
  const auto run = [&](void* memory, size_t bytes, fms_error* error) {
    return fms_attention_run(context.get(), &plan, &args, memory, bytes, nullptr, error);
  };
  fms_error error{};
  EXPECT_EQ(run(workspace.data(), plan.workspace_bytes - 1, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "workspace");
  EXPECT_NE(std::string(error.message).find(std::to_string(plan.workspace_bytes)), std::string::npos) << error.message;
  EXPECT_EQ(run(nullptr, plan.workspace_bytes, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "workspace");
  EXPECT_EQ(run(workspace.as<char>() + 8, plan.workspace_bytes, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "workspace");
  EXPECT_NE(std::string(error.message).find("64"), std::string::npos) << error.message;
  EXPECT_EQ(run(workspace.data(), plan.workspace_bytes, &error), FMS_OK);
}

TEST(AttentionContract, ATamperedPlanIsRefused) {
  const Prepared prepared(good_problem());
  fms_error error{};
  ASSERT_EQ(prepared.run(&error), FMS_OK);
  const std::vector<std::function<void(fms_attention_plan&)>> tampers = {
      [](auto& p) { p.version += 1; },
      [](auto& p) { p.fingerprint ^= 1; },
      [](auto& p) { p.cpu_isa = p.cpu_isa == FMS_ISA_SCALAR ? FMS_ISA_AVX2 : FMS_ISA_SCALAR; },
      [](auto& p) { p.family = p.family == FMS_KERNEL_TILE ? FMS_KERNEL_GEMV : FMS_KERNEL_TILE; },
      [](auto& p) { p.threads += 1; },
      [](auto& p) { p.kv_splits += 1; },
      [](auto& p) { p.q_tile += 1; },
      [](auto& p) { p.kv_tile += 1; },
      [](auto& p) { p.work_items += 1; },
      [](auto& p) { p.workspace_bytes = 0, p.thread_bytes = 0, p.work_items += 1; },
      [](auto& p) { p.problem.kv_len += 1; },
      [](auto& p) { p.problem.head_dim = 128; },
      [](auto& p) { p.problem.value_dim = 32; },
      [](auto& p) { p.problem.features |= FMS_BIAS; },
      [](auto& p) { p.problem.o.seq += 1; },
      [](auto& p) { p.problem.block_table_stride += 1; },
      [](auto& p) { p.struct_size = 4; },
  };
  for (size_t at = 0; at < tampers.size(); ++at) {
    fms_attention_plan plan = prepared.plan;
    tampers[at](plan);
    error = {};
    EXPECT_EQ(fms_attention_run(prepared.context.get(), &plan, &prepared.args, prepared.workspace.data(),
                                prepared.workspace.bytes(), nullptr, &error),
              FMS_INVALID_ARGUMENT)
        << "tamper " << at;
    EXPECT_EQ(std::string(error.argument).rfind("plan", 0), 0u) << error.argument << ": " << error.message;
  }
}

TEST(AttentionContract, ACopyOfAPlanIsThePlan) {
  Prepared prepared(good_problem());
  fms_error error{};
  ASSERT_EQ(prepared.run(&error), FMS_OK);
  const std::vector<uint8_t> first = prepared.one.output_bytes();
  const fms_attention_plan copy = prepared.plan;
  fms_attention_plan again{};
  ASSERT_EQ(fms_attention_plan_make(prepared.context.get(), &prepared.one.problem(), nullptr, &again, nullptr), FMS_OK);
  EXPECT_EQ(again.fingerprint, copy.fingerprint);
  prepared.plan = copy;
  prepared.one.reset_outputs();
  ASSERT_EQ(prepared.run(&error), FMS_OK);
  EXPECT_EQ(prepared.one.output_bytes(), first);
}

TEST(AttentionContract, APlanPrintsItselfLikeSnprintf) {
  const Prepared prepared(good_problem());
  for (const auto print : {fms_plan_explain, fms_plan_json}) {
    const size_t length = print(&prepared.plan, nullptr, 0);
    ASSERT_GT(length, 20u);
    std::string text(length + 1, '#');
    EXPECT_EQ(print(&prepared.plan, text.data(), text.size()), length);
    EXPECT_EQ(std::strlen(text.c_str()), length);
    std::string cut(10, '#');
    EXPECT_EQ(print(&prepared.plan, cut.data(), 6), length);
    EXPECT_EQ(cut, text.substr(0, 5) + '\0' + "####");
  }
}

TEST(AttentionContract, NothingToDoIsDone) {
  const Context context = make_context(FMS_ISA_AUTO);
  for (const Shape& shape : {Shape{0, 4, 2, 5, 9, 64}, Shape{2, 4, 2, 0, 9, 64}, Shape{0, 1, 1, 0, 0, 1}}) {
    const fms_attention_problem problem = simple_problem(FMS_BF16, shape);
    fms_attention_plan plan;
    fms_error error{};
    ASSERT_EQ(fms_attention_plan_make(context.get(), &problem, nullptr, &plan, &error), FMS_OK) << to_string(error);
    EXPECT_EQ(plan.family, FMS_KERNEL_EMPTY);
    fms_attention_args args{};  // no pointer is needed where there is nothing to point to
    args.struct_size = sizeof args;
    EXPECT_EQ(fms_attention_run(context.get(), &plan, &args, nullptr, 0, nullptr, &error), FMS_OK) << to_string(error);
  }
}

// ---- what ran is what was asked --------------------------------------------------------------------------------

TEST(AttentionContract, WhatRanIsWhatThePlanSaysOnTheForcedIsa) {
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    EXPECT_EQ(fms_context_cpu_isa(context.get()), isa);
    for (const fms_dtype dtype : kAllDtypes) {
      for (const Shape& shape : kLawShapes) {
        for (const fms_plan_options& options : {plan_options(0, 0, 0), plan_options(1, 0, 0), plan_options(2, 4, 0)}) {
          AttentionCase one = normal_case(simple_problem(dtype, shape));
          const RunResult result = plan_and_run(context.get(), one, &options);
          ASSERT_EQ(result.status, FMS_OK) << to_string(result.error);
          EXPECT_EQ(result.info.cpu_isa, result.plan.cpu_isa) << one.describe();
          EXPECT_LE(result.info.cpu_isa, isa) << one.describe();
          EXPECT_GE(result.info.cpu_isa, FMS_ISA_SCALAR);
          EXPECT_EQ(result.info.family, result.plan.family) << one.describe();
          EXPECT_EQ(result.info.kv_splits, result.plan.kv_splits) << one.describe();
          EXPECT_LE(result.info.threads, result.plan.threads) << one.describe();
          if (options.threads != 0) {
            EXPECT_LE(result.plan.threads, options.threads) << one.describe();
          }
          if (options.kv_splits != 0 && shape.kv_len >= 256) {
            EXPECT_EQ(result.plan.kv_splits, options.kv_splits) << one.describe();
          }
        }
      }
    }
  }
}

// A level that only ever falls back to a lower one would make every other test of it worthless.
TEST(AttentionContract, EveryIsaRunsKernelsOfItsOwn) {
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    AttentionCase one = normal_case(simple_problem(FMS_BF16, {1, 4, 4, 256, 256, 64}));
    const RunResult result = plan_and_run(context.get(), one);
    ASSERT_EQ(result.status, FMS_OK) << to_string(result.error);
    EXPECT_EQ(result.info.cpu_isa, isa) << fms_cpu_isa_name(isa);
    EXPECT_EQ(result.info.family == FMS_KERNEL_AMX, isa == FMS_ISA_AMX);
  }
}

TEST(AttentionContract, TheMachinesIsasAreOffered) {
  const auto offered = [](fms_cpu_isa isa) { return make_context(isa) != nullptr; };
  EXPECT_TRUE(offered(FMS_ISA_SCALAR));
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  EXPECT_EQ(offered(FMS_ISA_AVX2), avx2);
  if (!__builtin_cpu_supports("avx512f")) {
    EXPECT_FALSE(offered(FMS_ISA_AVX512));
  }
  if (offered(FMS_ISA_AMX)) {
    EXPECT_TRUE(offered(FMS_ISA_AVX512)) << "a level includes every lower one";
  }
}

class Environment : public ::testing::Test {
 protected:
  static constexpr const char* kName = "FLASHMOE_CPU_ISA";
  void SetUp() override {
    if (const char* value = std::getenv(kName)) {
      before_ = value;
    }
  }
  void TearDown() override { before_ ? setenv(kName, before_->c_str(), 1) : unsetenv(kName); }
  std::optional<std::string> before_;
};

TEST_F(Environment, FlashmoeCpuIsaIsHonoured) {
  const std::vector<fms_cpu_isa> isas = available_isas();
  for (const fms_cpu_isa isa : isas) {
    setenv(kName, fms_cpu_isa_name(isa), 1);
    const Context context = make_context(FMS_ISA_AUTO);
    ASSERT_NE(context, nullptr);
    EXPECT_EQ(fms_context_cpu_isa(context.get()), isa);
    const Context forced = make_context(FMS_ISA_SCALAR);
    EXPECT_EQ(fms_context_cpu_isa(forced.get()), FMS_ISA_SCALAR) << "an explicit option wins";
    fms_context* by_default = nullptr;
    ASSERT_EQ(fms_context_create(nullptr, &by_default, nullptr), FMS_OK);
    EXPECT_EQ(fms_context_cpu_isa(by_default), isa);
    fms_context_destroy(by_default);
  }
  unsetenv(kName);
  const Context best = make_context(FMS_ISA_AUTO);
  EXPECT_EQ(fms_context_cpu_isa(best.get()), isas.back());
}

TEST_F(Environment, ABadValueIsAnErrorThatListsTheGoodOnes) {
  for (const char* bad : {"sse9", "AVX 512", "5"}) {
    setenv(kName, bad, 1);
    fms_context* context = nullptr;
    fms_error error{};
    EXPECT_EQ(fms_context_create(nullptr, &context, &error), FMS_INVALID_ARGUMENT);
    EXPECT_EQ(context, nullptr);
    EXPECT_STREQ(error.argument, kName);
    for (const char* part : {bad, "scalar", "avx2", "avx512", "amx"}) {
      EXPECT_NE(std::string(error.message).find(part), std::string::npos) << error.message;
    }
  }
}

TEST(AttentionContract, TheLibraryTellsItsGpuKernels) {
  const std::vector<int32_t> asked_for = FMS_TEST_CUDA_IMAGES;
  std::vector<int32_t> told(fms_cuda_images(nullptr, 0));
  EXPECT_EQ(fms_cuda_images(told.data(), told.size()), told.size());
  EXPECT_EQ(told, asked_for);
  EXPECT_EQ(std::string(fms_why_no_cuda_images()).empty(), !told.empty());
  if (told.size() > 1) {
    int32_t two[] = {-1, -1};
    EXPECT_EQ(fms_cuda_images(two, 1), told.size());
    EXPECT_EQ(two[0], told[0]);
    EXPECT_EQ(two[1], -1) << "no more than there is room for";
  }
}

TEST(AttentionContract, BadContextOptionsAreRefused) {
  const auto create = [](auto spoil, fms_error* error) {
    fms_context_options options{};
    options.struct_size = sizeof options;
    spoil(options);
    fms_context* context = nullptr;
    const fms_status status = fms_context_create(&options, &context, error);
    fms_context_destroy(context);
    return status;
  };
  fms_error error{};
  EXPECT_EQ(create([](auto& o) { set_raw(o.cpu_isa, 77); }, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "options.cpu_isa");
  EXPECT_EQ(create([](auto& o) { o.struct_size = 1; }, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "options.struct_size");
  EXPECT_EQ(create([](auto& o) { o.device_index = 3; }, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "options.device_index");
  EXPECT_EQ(create([](auto& o) { set_raw(o.device_kind, 77); }, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "options.device_kind");
  // A library built without a CUDA toolkit has no kernels; any other wants a driver.
  setenv("FLASHMOE_DRIVER", "/no/such/driver.so", 1);
  const fms_status status = create([](auto& o) { o.device_kind = FMS_DEVICE_CUDA; }, &error);
  unsetenv("FLASHMOE_DRIVER");
  EXPECT_TRUE(status == FMS_DEVICE_ERROR || status == FMS_NOT_SUPPORTED) << status;
  EXPECT_STREQ(error.argument, "options.device_kind");
}

}  // namespace
}  // namespace flashmoe::testing
