// The oracle against results worked out by hand. Each case is small enough to check with a pencil.
#include "kernels/reference/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace flashmoe::reference {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kUntouched = -77.0;
constexpr double kTiny = 1e-13;

// An fp32 problem over contiguous (B,H,S,D) tensors with scale 1. Not fms_attention_problem_init: that is judged too.
struct HandCase {
  fms_attention_problem problem{};
  fms_attention_args args{};
  std::vector<float> q, k, v, bias, sinks;
  std::vector<int32_t> cu_q, cu_kv, kv_lengths, block_table;
  std::vector<double> o, lse;

  HandCase(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len, int64_t head_dim) {
    problem.struct_size = sizeof problem;
    problem.dtype = FMS_F32;
    problem.batch = batch;
    problem.q_heads = q_heads;
    problem.kv_heads = kv_heads;
    problem.q_len = q_len;
    problem.kv_len = kv_len;
    problem.head_dim = problem.value_dim = head_dim;
    problem.q = {q_heads * q_len * head_dim, q_len * head_dim, head_dim};
    problem.k = problem.v = {kv_heads * kv_len * head_dim, kv_len * head_dim, head_dim};
    problem.softmax_scale = 1;
    problem.window_left = problem.window_right = -1;
    problem.bias_dtype = FMS_F32;
  }

  void run() {
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.bias = bias.data();
    args.sinks = sinks.data();
    args.cu_q = cu_q.data();
    args.cu_kv = cu_kv.data();
    args.kv_lengths = kv_lengths.data();
    args.block_table = block_table.data();
    const auto rows = static_cast<size_t>(problem.batch * problem.q_heads * problem.q_len);
    o.assign(rows * static_cast<size_t>(problem.head_dim), kUntouched);
    lse.assign(rows, kUntouched);
    AttentionOutputs outputs;
    outputs.o = o.data();
    outputs.lse = lse.data();
    attention(problem, args, outputs);
  }
};

TEST(ReferenceAttention, OneKeyReturnsItsValue) {
  HandCase c(1, 1, 1, 1, 1, 2);
  c.q = {3, 4};
  c.k = {1, 0.5};
  c.v = {-7, 9};
  c.run();
  EXPECT_EQ(c.o, (std::vector<double>{-7, 9}));
  EXPECT_EQ(c.lse[0], 5);  // 3*1 + 4*0.5
}

// Scores ln 3 and 0: weights 3/4 and 1/4.
HandCase two_keys() {
  HandCase c(1, 1, 1, 1, 2, 1);
  c.q = {1};
  c.k = {std::log(3.0f), 0};
  c.v = {8, 4};
  return c;
}

TEST(ReferenceAttention, TwoKeysWithKnownWeights) {
  HandCase c = two_keys();
  c.run();
  EXPECT_NEAR(c.o[0], 7, 1e-6);  // 8*3/4 + 4*1/4; ln 3 is rounded to a float
  EXPECT_NEAR(c.lse[0], std::log(4.0), 1e-6);
}

TEST(ReferenceAttention, TheScaleMultipliesTheScore) {
  HandCase c = two_keys();
  c.problem.softmax_scale = 2;  // scores ln 9 and 0
  c.run();
  EXPECT_NEAR(c.o[0], (8 * 9 + 4) / 10.0, 1e-6);
}

TEST(ReferenceAttention, ASinkTakesWeightAndGivesNoValue) {
  HandCase c = two_keys();
  c.problem.features = FMS_SINKS;
  c.sinks = {std::log(4.0f)};
  c.run();
  EXPECT_NEAR(c.o[0], (8 * 3 + 4) / 8.0, 1e-6);
  EXPECT_NEAR(c.lse[0], std::log(8.0), 1e-6);
}

TEST(ReferenceAttention, TheSoftcapComesBeforeTheBias) {
  HandCase c(1, 1, 1, 1, 1, 1);
  c.problem.features = FMS_BIAS;
  c.problem.softcap = 2;
  c.q = {2};
  c.k = {3};
  c.v = {1};
  c.bias = {10};
  c.run();
  EXPECT_NEAR(c.lse[0], 2 * std::tanh(3.0) + 10, kTiny);
}

TEST(ReferenceAttention, AMaskHidesKeysWhateverTheyHold) {
  HandCase c(2, 1, 1, 2, 2, 1);
  c.problem.features = FMS_MASK;
  c.problem.mask = {0, 0, 10, 1, 1};  // a row of two keys for each query
  c.q.assign(4, 1);
  c.k = {5, kNaN, 7, kNaN};
  c.v = {3, kInf, 4, kInf};
  std::vector<uint8_t> mask(12, 255);
  mask[1] = mask[10] = mask[11] = 0;
  c.args.mask = mask.data();
  c.run();
  for (int64_t b = 0; b < 2; ++b) {
    EXPECT_EQ(c.lse[b * 2], 5 + 2 * b);
    EXPECT_EQ(c.o[b * 2], 3 + b);
    EXPECT_EQ(c.lse[b * 2 + 1], -kInf);
    EXPECT_EQ(c.o[b * 2 + 1], 0);
  }
}

TEST(ReferenceAttention, BiasStridesOfZeroBroadcast) {
  HandCase c(2, 2, 2, 2, 2, 1);
  c.problem.features = FMS_BIAS;
  c.q.assign(8, 0);
  c.k.assign(8, 0);
  c.v.assign(8, 1);
  c.problem.bias = {0, 10, 0, 1, 1};  // one row of two keys for each head
  c.bias.assign(12, kNaN);
  c.bias[0] = 0;
  c.bias[1] = std::log(2.0f);
  c.bias[10] = -kInf;
  c.bias[11] = 5;
  c.run();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(c.lse[b * 4 + i], std::log(3.0), 1e-6);
      EXPECT_NEAR(c.lse[b * 4 + 2 + i], 5, kTiny);
    }
  }
}

TEST(ReferenceAttention, BiasInHalfPrecision) {
  HandCase c(1, 1, 1, 1, 1, 1);
  c.problem.features = FMS_BIAS;
  c.problem.bias_dtype = FMS_F16;
  c.q = c.k = {0};
  c.v = {1};
  c.bias = {0};
  const uint16_t minus_two = 0xc000;
  std::memcpy(c.bias.data(), &minus_two, sizeof minus_two);
  c.run();
  EXPECT_EQ(c.lse[0], -2);
}

// Keys all alike: the output is the mean of the visible values, so it shows which keys were seen.
HandCase equal_keys(int64_t q_len, int64_t kv_len) {
  HandCase c(1, 1, 1, q_len, kv_len, 1);
  c.q.assign(static_cast<size_t>(q_len), 0);
  c.k.assign(static_cast<size_t>(kv_len), 0);
  for (int64_t j = 0; j < kv_len; ++j) {
    c.v.push_back(static_cast<float>(1 << j));
  }
  return c;
}

TEST(ReferenceAttention, CausalIsAlignedToTheLastKey) {
  HandCase c = equal_keys(2, 4);
  c.problem.window_right = 0;
  c.run();
  EXPECT_NEAR(c.o[0], (1 + 2 + 4) / 3.0, kTiny);
  EXPECT_NEAR(c.o[1], (1 + 2 + 4 + 8) / 4.0, kTiny);
}

TEST(ReferenceAttention, RowsBeforeTheFirstKeyAreFullyMasked) {
  HandCase c = equal_keys(3, 1);
  c.problem.window_right = 0;
  c.run();
  EXPECT_EQ(c.o, (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(c.lse[0], -kInf);
  EXPECT_EQ(c.lse[1], -kInf);
  EXPECT_EQ(c.lse[2], 0);
}

TEST(ReferenceAttention, WindowOnBothSides) {
  HandCase c = equal_keys(5, 5);
  c.problem.window_left = 1;
  c.problem.window_right = 2;
  c.run();
  EXPECT_NEAR(c.o[0], (1 + 2 + 4) / 3.0, kTiny);
  EXPECT_NEAR(c.o[2], (2 + 4 + 8 + 16) / 4.0, kTiny);
  EXPECT_NEAR(c.o[4], (8 + 16) / 2.0, kTiny);
}

TEST(ReferenceAttention, TheLargestWindowIsNoOverflow) {
  HandCase c = equal_keys(2, 2);
  c.problem.window_left = c.problem.window_right = std::numeric_limits<int64_t>::max();
  c.run();
  EXPECT_NEAR(c.o[0], 1.5, kTiny);
  EXPECT_NEAR(c.o[1], 1.5, kTiny);
}

TEST(ReferenceAttention, QueryHeadsOfAGroupShareTheirKvHead) {
  HandCase c(1, 4, 2, 1, 1, 1);
  c.q.assign(4, 0);
  c.k.assign(2, 0);
  c.v = {5, 6};
  c.run();
  EXPECT_EQ(c.o, (std::vector<double>{5, 5, 6, 6}));
}

TEST(ReferenceAttention, RaggedSequencesUseTheirOwnRowsAndLengths) {
  HandCase c(3, 1, 1, 2, 2, 1);
  c.problem.features = FMS_RAGGED_Q | FMS_RAGGED_KV;
  c.problem.total_q = 3;
  c.problem.total_kv = 3;
  c.cu_q = {0, 1, 1, 3};
  c.cu_kv = {0, 2, 3, 3};
  c.q.assign(3, 0);
  c.k.assign(3, 0);
  c.v = {1, 3, 100};
  c.run();
  EXPECT_EQ(c.o, (std::vector<double>{2, kUntouched, kUntouched, kUntouched, 0, 0}));
  EXPECT_EQ(c.lse[4], -kInf);
}

TEST(ReferenceAttention, KvLengthsMoveTheDiagonal) {
  HandCase c = equal_keys(1, 4);
  c.problem.features = FMS_KV_LENGTHS;
  c.problem.window_left = 0;
  c.problem.window_right = 0;
  c.kv_lengths = {3};
  c.k[3] = c.v[3] = kNaN;
  c.run();
  EXPECT_EQ(c.o[0], 4);  // the third key is the last
}

TEST(ReferenceAttention, PagesAreFollowedThroughTheTable) {
  HandCase c(2, 1, 1, 1, 3, 1);
  c.problem.features = FMS_PAGED_KV | FMS_KV_LENGTHS;
  c.problem.page_size = 2;
  c.problem.page_count = 4;
  c.problem.block_table_stride = 3;
  c.problem.k = c.problem.v = {2, 2, 1};
  c.q = {0, 0};
  c.k.assign(8, 0);
  c.v = {10, 20, 30, 40, 50, 60, 70, 80};
  c.kv_lengths = {3, 1};
  c.block_table = {2, 0, -1, 3, -1, -1};
  c.run();
  EXPECT_NEAR(c.o[0], (50 + 60 + 10) / 3.0, kTiny);
  EXPECT_EQ(c.o[1], 70);
}

TEST(ReferenceAttention, EveryScoreMinusInfinityIsARowWithoutWeight) {
  HandCase c = two_keys();
  c.problem.features = FMS_BIAS;
  c.problem.bias = {0, 0, 0, 1, 1};
  c.bias = {-kInf, -kInf};
  c.run();
  EXPECT_EQ(c.o[0], 0);
  EXPECT_EQ(c.lse[0], -kInf);
  c.problem.features |= FMS_SINKS;
  c.sinks = {1.5};
  c.run();
  EXPECT_EQ(c.o[0], 0);
  EXPECT_EQ(c.lse[0], 1.5);
}

TEST(ReferenceAttention, NoKeysAtAll) {
  HandCase c = equal_keys(1, 0);
  c.run();
  EXPECT_EQ(c.o[0], 0);
  EXPECT_EQ(c.lse[0], -kInf);
}

TEST(ReferenceAttention, NaNOrPlusInfinityInAVisibleScorePoisonsTheRow) {
  for (const float poison : {kNaN, kInf}) {
    HandCase c = two_keys();
    c.k[1] = poison;
    c.run();
    EXPECT_TRUE(std::isnan(c.o[0]));
    EXPECT_TRUE(std::isnan(c.lse[0]));
  }
  HandCase c = two_keys();
  c.k[1] = -kInf;
  c.run();
  EXPECT_EQ(c.o[0], 8);
}

TEST(ReferenceAttention, ANonFiniteValueShowsHoweverSmallItsWeight) {
  HandCase c = two_keys();
  c.k[0] = -2000;  // exp underflows even in fp64
  c.v[0] = kInf;
  c.run();
  EXPECT_FALSE(std::isfinite(c.o[0]));
  EXPECT_NEAR(c.lse[0], 0, kTiny);
}

TEST(ReferenceAttention, HugeScoresDoNotOverflow) {
  HandCase c = two_keys();
  c.q = {1e30f};
  c.k = {1, 1};
  c.run();
  EXPECT_EQ(c.o[0], 6);
  EXPECT_EQ(c.lse[0], 1e30f);
}

TEST(ReferenceMerge, WeightsFollowTheLogSumExp) {
  fms_merge_problem problem{};
  problem.dtype = FMS_F32;
  problem.batch = problem.heads = 1;
  problem.len = 4;
  problem.head_dim = 1;
  problem.o_a = problem.o_b = problem.lse_a = problem.lse_b = {4, 4, 1};
  const std::vector<float> o_a = {8, 5, kNaN, kNaN}, lse_a = {std::log(3.0f), 1, -kInf, -kInf};
  const std::vector<float> o_b = {4, kNaN, 6, kNaN}, lse_b = {0, -kInf, 2, -kInf};
  std::vector<double> o(4), lse(4);
  merge(problem, o_a.data(), lse_a.data(), o_b.data(), lse_b.data(), o.data(), lse.data());
  EXPECT_NEAR(o[0], 7, 1e-6);
  EXPECT_NEAR(lse[0], std::log(4.0), 1e-6);
  EXPECT_EQ(o[1], 5);
  EXPECT_EQ(lse[1], 1);
  EXPECT_EQ(o[2], 6);
  EXPECT_EQ(o[3], 0);
  EXPECT_EQ(lse[3], -kInf);
}

}  // namespace
}  // namespace flashmoe::reference
