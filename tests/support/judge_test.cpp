// Who judges the judge: a right answer passes, each kind of wrong answer is caught.
#include "support/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/number_format.hpp"
#include "support/random_problem.hpp"

namespace flashmoe::testing {
namespace {

void write_answer(const AttentionCase& one, const OracleAnswer& oracle) {
  const fms_attention_problem& p = one.problem();
  const fms_attention_args args = one.args();
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.q_heads; ++h) {
      for (int64_t i = 0; i < one.q_length(b); ++i) {
        const int64_t row = (b * p.q_heads + h) * p.q_len + i;
        for (int64_t d = 0; d < p.value_dim; ++d) {
          store(args.o, one.output_dtype(), one.o_offset(b, h, i) + d, oracle.o[row * p.value_dim + d]);
        }
        if (one.has(FMS_LSE)) {
          store(args.lse, FMS_F32, one.lse_offset(b, h, i), oracle.lse[row]);
        }
      }
    }
  }
}

TEST(NumberFormat, StoreThenLoadIsTheIdentityOnEveryHalf) {
  for (const fms_dtype dtype : {FMS_F16, FMS_BF16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const auto before = static_cast<uint16_t>(bits);
      const double value = load(&before, dtype, 0);
      if (std::isnan(value)) {
        continue;
      }
      uint16_t after = 0;
      store(&after, dtype, 0, value);
      ASSERT_EQ(after, before) << dtype_name(dtype);
    }
  }
}

TEST(NumberFormat, RoundsToNearestEven) {
  EXPECT_EQ(round_to(FMS_F16, 1 + 0x1p-11), 1.0);
  EXPECT_EQ(round_to(FMS_F16, 1 + 3 * 0x1p-11), 1 + 0x1p-9);
  EXPECT_EQ(round_to(FMS_F16, 65519.9), 65504.0);
  EXPECT_TRUE(std::isinf(round_to(FMS_F16, 65520)));
  EXPECT_EQ(round_to(FMS_F16, 0x1p-25), 0.0);
  EXPECT_EQ(round_to(FMS_BF16, 1 + 0x1p-8), 1.0);
  EXPECT_EQ(round_to(FMS_BF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(unit_roundoff(FMS_BF16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(FMS_F16), 0x1p-11);
}

TEST(FencedBuffer, ReachingOutsideFaults) {
  const FencedBuffer after(10, Fence::kAfter, 0);
  const FencedBuffer before(10, Fence::kBefore, 0);
  EXPECT_DEATH(after.as<volatile char>()[10] = 1, "");
  EXPECT_DEATH(before.as<volatile char>()[-1] = 1, "");
  EXPECT_TRUE(after.slack_is_intact());
  if (kAddressSanitizer) {
    return;  // it has no slack: the sanitizer has just shown that it watches both ends
  }
  after.as<volatile char>()[-1] = 1;
  EXPECT_FALSE(after.slack_is_intact());
}

TEST(Judge, TheOraclesOwnAnswerRoundedPasses) {
  for (const fms_dtype dtype : {FMS_F16, FMS_BF16, FMS_F32}) {
    for (uint64_t seed = 0; seed < (kSlowBuild ? 8 : 40); ++seed) {
      const AttentionCase one = random_case(seed, dtype);
      const OracleAnswer oracle(one);
      write_answer(one, oracle);
      const Judgement judgement = judge(one, oracle);
      EXPECT_EQ(judgement.complaint, "") << "seed " << seed << ' ' << one.describe();
      EXPECT_EQ(one.stray_write().value_or(""), "") << "seed " << seed << ' ' << one.describe();
    }
  }
}

AttentionCase plain_case(fms_dtype dtype) {
  fms_attention_problem p{};
  p.struct_size = sizeof p;
  p.dtype = dtype;
  p.features = FMS_LSE;
  p.batch = p.q_heads = p.kv_heads = 1;
  p.q_len = 4;
  p.kv_len = 50;
  p.head_dim = p.value_dim = 64;
  p.q = p.k = p.v = p.o = {0, 0, 65};
  p.lse = {0, 0, 2};
  p.softmax_scale = 0.125f;
  p.window_left = p.window_right = -1;
  Random random(1);
  return AttentionCase(p, {}, [&](Tensor) { return random.normal(); });
}

TEST(Judge, EachKindOfWrongAnswerIsCaught) {
  for (const fms_dtype dtype : {FMS_F16, FMS_BF16, FMS_F32}) {
    AttentionCase one = plain_case(dtype);
    const OracleAnswer oracle(one);
    write_answer(one, oracle);
    ASSERT_EQ(judge(one, oracle).complaint, "");
    const fms_attention_args args = one.args();
    const int64_t element = one.o_offset(0, 0, 2) + 7;
    const double right = one.o_value(element);

    store(args.o, dtype, element, right + std::max(6 * unit_roundoff(dtype), 1e-4));
    EXPECT_NE(judge(one, oracle).complaint, "") << "a result a few roundings off";
    store(args.o, dtype, element, std::nan(""));
    EXPECT_NE(judge(one, oracle).complaint, "") << "NaN";
    store(args.o, dtype, element, right);

    args.lse[one.lse_offset(0, 0, 1)] += 2e-4f;
    EXPECT_NE(judge(one, oracle).complaint, "") << "lse";
    args.lse[one.lse_offset(0, 0, 1)] -= 2e-4f;

    ASSERT_EQ(judge(one, oracle).complaint, "");
    EXPECT_EQ(one.stray_write().value_or(""), "");
    store(args.o, dtype, one.o_offset(0, 0, 0) + 64, 1.0);
    EXPECT_NE(one.stray_write().value_or(""), "") << "padding of o";
    one.reset_outputs();
    EXPECT_EQ(one.stray_write().value_or(""), "");
    args.lse[1] = 1;
    EXPECT_NE(one.stray_write().value_or(""), "") << "padding of lse";
  }
}

// A generator that never draws a feature would let the differential test pass for nothing.
TEST(RandomProblem, DrawsEveryFeatureAndEveryKindOfShape) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const AttentionCase one = random_case(seed, FMS_F32, {.max_multiplies = 100'000});
    const fms_attention_problem& p = one.problem();
    for (uint32_t bit = 1; bit <= FMS_PARTIAL; bit <<= 1) {
      seen["feature " + std::to_string(bit)] += (p.features & bit) != 0;
    }
    seen["softcap"] += p.softcap > 0;
    seen["causal"] += p.window_right == 0;
    seen["left window"] += p.window_left > 0;
    seen["group"] += p.q_heads > p.kv_heads;
    seen["decode"] += p.q_len == 1;
    seen["more queries than keys"] += p.q_len > p.kv_len;
    seen["no keys"] += p.kv_len == 0;
    seen["no queries"] += p.q_len == 0;
    seen["odd head_dim"] += p.head_dim % 2 == 1;
    seen["head_dim above 128"] += p.head_dim > 128;
    seen["values of another size"] += p.value_dim != p.head_dim;
    seen["two biases"] += (p.features & FMS_BIAS) != 0 && (p.features & FMS_BIAS2) != 0;
    seen["bias of groups"] += p.batch > 1 && (p.bias.group > 1 || p.bias2.group > 1);
    seen["broadcast k"] += p.k.head == 0;
    seen["rows further apart than head_dim"] += p.q.seq > p.head_dim;
  }
  for (const auto& [what, times] : seen) {
    EXPECT_GE(times, 4) << what;
  }
}

TEST(RandomProblem, TheSameSeedGivesTheSameProblem) {
  const AttentionCase a = random_case(7, FMS_F16);
  const AttentionCase b = random_case(7, FMS_F16);
  EXPECT_EQ(a.describe(), b.describe());
  EXPECT_EQ(OracleAnswer(a).score_magnitude, OracleAnswer(b).score_magnitude);
  EXPECT_NE(a.describe(), random_case(8, FMS_F16).describe());
}

}  // namespace
}  // namespace flashmoe::testing
