// Laws of attention, held by every ISA of this machine in every dtype. A law needs no oracle: it compares two runs of
// the library, bit for bit wherever the mathematics says that nothing may change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "support/judge.hpp"
#include "support/number_format.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kFloatRoundoff = 0x1p-24;

class AttentionLaws : public ::testing::TestWithParam<std::tuple<fms_cpu_isa, fms_dtype>> {
 protected:
  fms_dtype dtype() const { return std::get<1>(GetParam()); }

  void run(AttentionCase& one, const fms_plan_options* options = nullptr) {
    const RunResult result = plan_and_run(context_.get(), one, options);
    ASSERT_EQ(result.status, FMS_OK) << to_string(result.error) << '\n' << one.describe();
  }

  void run_and_judge(AttentionCase& one, const fms_plan_options* options = nullptr) {
    ASSERT_NO_FATAL_FAILURE(run(one, options));
    EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "") << one.describe();
    EXPECT_EQ(one.stray_write().value_or(""), "") << one.describe();
  }

  // The error of one weighted mean over keys, if the scores were exact: see judge.cpp.
  double mean_error(double expected, double magnitude, int64_t keys) const {
    const double accumulation = static_cast<double>(keys + 8) * kFloatRoundoff;
    return spacing_at(dtype(), expected) / 2 + (unit_roundoff(dtype()) + accumulation) * magnitude;
  }

  Context context_ = make_context(std::get<0>(GetParam()));
};

bool rows_are_identical(const AttentionCase& a, const AttentionCase& b, int64_t batch, int64_t h, int64_t i,
                        int64_t except_column = -1) {
  const int64_t a_row = a.o_offset(batch, h, i);
  const int64_t b_row = b.o_offset(batch, h, i);
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  for (int64_t d = 0; d < a.problem().head_dim; ++d) {
    if (d != except_column && !same(a.o_value(a_row + d), b.o_value(b_row + d))) {
      return false;
    }
  }
  return same(a.lse_value(a.lse_offset(batch, h, i)), b.lse_value(b.lse_offset(batch, h, i)));
}

bool row_is_nan(const AttentionCase& one, int64_t b, int64_t h, int64_t i) {
  for (int64_t d = 0; d < one.problem().head_dim; ++d) {
    if (!std::isnan(one.o_value(one.o_offset(b, h, i) + d))) {
      return false;
    }
  }
  return std::isnan(one.lse_value(one.lse_offset(b, h, i)));
}

bool row_is_empty(const AttentionCase& one, int64_t b, int64_t h, int64_t i, double lse) {
  for (int64_t d = 0; d < one.problem().head_dim; ++d) {
    if (one.o_value(one.o_offset(b, h, i) + d) != 0) {
      return false;
    }
  }
  const double got = one.lse_value(one.lse_offset(b, h, i));
  return std::isinf(lse) ? got == lse : std::abs(got - lse) <= 4 * kFloatRoundoff * std::abs(lse);
}

template <typename Visit>
void for_each_query(const AttentionCase& one, Visit&& visit) {
  for (int64_t b = 0; b < one.problem().batch; ++b) {
    for (int64_t h = 0; h < one.problem().q_heads; ++h) {
      for (int64_t i = 0; i < one.q_length(b); ++i) {
        visit(b, h, i);
      }
    }
  }
}

int64_t kv_head_of(const AttentionCase& one, int64_t h) {
  return h / (one.problem().q_heads / one.problem().kv_heads);
}

// ---- laws of the mean ------------------------------------------------------------------------------------------

TEST_P(AttentionLaws, ConstantValuesComeOutWhateverTheWeights) {
  for (const Shape& shape : kLawShapes) {
    AttentionCase one = normal_case(simple_problem(dtype(), shape));
    const auto constant = [](int64_t d) { return static_cast<double>(d % 7 - 3) * 0.375; };
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t g = 0; g < shape.kv_heads; ++g) {
        for (int64_t j = 0; j < shape.kv_len; ++j) {
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            one.set(Tensor::kV, one.v_offset(b, g, j) + d, constant(d));
          }
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(run(one));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const double bound = mean_error(constant(d), std::abs(constant(d)), shape.kv_len);
        EXPECT_NEAR(one.o_value(one.o_offset(b, h, i) + d), constant(d), bound) << one.describe();
      }
    });
  }
}

TEST_P(AttentionLaws, TheOrderOfTheKeysDoesNotMatter) {
  for (const Shape& shape : kLawShapes) {
    AttentionCase one = normal_case(simple_problem(dtype(), shape));
    AttentionCase permuted = normal_case(simple_problem(dtype(), shape));
    std::vector<int64_t> order(static_cast<size_t>(shape.kv_len));
    std::iota(order.begin(), order.end(), int64_t{0});
    Random random(5);
    for (size_t at = order.size() - 1; at > 0; --at) {
      std::swap(order[at], order[random.between(0, static_cast<int64_t>(at))]);
    }
    const fms_attention_args args = one.args();
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t g = 0; g < shape.kv_heads; ++g) {
        for (int64_t j = 0; j < shape.kv_len; ++j) {
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            const double k = load(args.k, dtype(), one.k_offset(b, g, order[j]) + d);
            const double v = load(args.v, dtype(), one.v_offset(b, g, order[j]) + d);
            permuted.set(Tensor::kK, permuted.k_offset(b, g, j) + d, k);
            permuted.set(Tensor::kV, permuted.v_offset(b, g, j) + d, v);
          }
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(run(one));
    ASSERT_NO_FATAL_FAILURE(run(permuted));
    const OracleAnswer oracle(one);
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      const int64_t row = (b * shape.q_heads + h) * shape.q_len + i;
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const int64_t element = row * shape.head_dim + d;
        const double bound = 2 * mean_error(oracle.o[element], oracle.o_magnitude[element], shape.kv_len);
        const int64_t offset = one.o_offset(b, h, i) + d;
        ASSERT_NEAR(one.o_value(offset), permuted.o_value(offset), bound) << one.describe();
      }
      ASSERT_NEAR(one.lse_value(one.lse_offset(b, h, i)), permuted.lse_value(one.lse_offset(b, h, i)), 1e-4);
    });
  }
}

TEST_P(AttentionLaws, DoublingTheQueriesIsDoublingTheScale) {
  for (const Shape& shape : kLawShapes) {
    fms_attention_problem problem = simple_problem(dtype(), shape);
    problem.window_right = 0;
    AttentionCase doubled_queries = normal_case(problem);
    problem.softmax_scale *= 2;
    AttentionCase doubled_scale = normal_case(problem);
    for_each_query(doubled_queries, [&](int64_t b, int64_t h, int64_t i) {
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const int64_t offset = doubled_queries.q_offset(b, h, i) + d;
        doubled_queries.set(Tensor::kQ, offset, 2 * doubled_queries.q_value(offset));
      }
    });
    ASSERT_NO_FATAL_FAILURE(run(doubled_queries));
    ASSERT_NO_FATAL_FAILURE(run(doubled_scale));
    EXPECT_EQ(doubled_queries.output_bytes(), doubled_scale.output_bytes()) << doubled_scale.describe();
  }
}

// ---- who sees whom ---------------------------------------------------------------------------------------------

TEST_P(AttentionLaws, LaterKeysDoNotChangeEarlierCausalRows) {
  for (const Shape& shape : kLawShapes) {
    fms_attention_problem problem = simple_problem(dtype(), shape);
    problem.window_right = 0;
    AttentionCase one = normal_case(problem);
    ASSERT_NO_FATAL_FAILURE(run(one));
    for (const double later_value : {3.0, kNaN, kInfinity}) {
      AttentionCase changed = normal_case(problem);
      const int64_t first_changed = shape.kv_len - std::max<int64_t>(1, shape.q_len / 3);
      for (int64_t b = 0; b < shape.batch; ++b) {
        for (int64_t g = 0; g < shape.kv_heads; ++g) {
          for (int64_t j = first_changed; j < shape.kv_len; ++j) {
            for (int64_t d = 0; d < shape.head_dim; ++d) {
              changed.set(Tensor::kK, changed.k_offset(b, g, j) + d, later_value);
              changed.set(Tensor::kV, changed.v_offset(b, g, j) + d, later_value);
            }
          }
        }
      }
      ASSERT_NO_FATAL_FAILURE(run(changed));
      for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
        if (!one.is_visible(b, i, first_changed)) {
          EXPECT_TRUE(rows_are_identical(one, changed, b, h, i))
              << "later keys " << later_value << ", row " << i << ' ' << one.describe();
        }
      });
    }
  }
}

TEST_P(AttentionLaws, KeysOutsideTheWindowAreNotRead) {
  for (const Shape& shape : kLawShapes) {
    fms_attention_problem problem = simple_problem(dtype(), shape);
    problem.window_left = 9;
    problem.window_right = 2;
    AttentionCase one = normal_case(problem);
    AttentionCase poisoned = normal_case(problem);
    const int64_t poisoned_key = shape.kv_len / 2;
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t g = 0; g < shape.kv_heads; ++g) {
        poisoned.set(Tensor::kK, poisoned.k_offset(b, g, poisoned_key), kNaN);
        poisoned.set(Tensor::kV, poisoned.v_offset(b, g, poisoned_key), kNaN);
      }
    }
    ASSERT_NO_FATAL_FAILURE(run(one));
    ASSERT_NO_FATAL_FAILURE(run(poisoned));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      if (one.is_visible(b, i, poisoned_key)) {
        EXPECT_TRUE(row_is_nan(poisoned, b, h, i)) << "row " << i << ' ' << one.describe();
      } else {
        EXPECT_TRUE(rows_are_identical(one, poisoned, b, h, i)) << "row " << i << ' ' << one.describe();
      }
    });
  }
}

// A mask of keys alone hides those at either end as lengths do, to the bit; what they hold is nobody's business.
TEST_P(AttentionLaws, AMaskThatPadsIsWhatStartsAndLengthsSay) {
  for (const Shape& shape : kLawShapes) {
    fms_attention_problem padded = simple_problem(dtype(), shape), masked = padded;
    padded.features |= FMS_KV_STARTS | FMS_KV_LENGTHS | FMS_TOP_LEFT;
    masked.features |= FMS_MASK | FMS_TOP_LEFT;
    padded.window_left = masked.window_left = shape.kv_len / 2;
    masked.mask = {shape.kv_len, 0, 0, 1, 1};
    IndexArrays indices;
    for (int64_t b = 0; b < shape.batch; ++b) {
      indices.kv_starts.push_back(static_cast<int32_t>(b == 0 ? shape.kv_len / 3 : 0));
      indices.kv_lengths.push_back(static_cast<int32_t>(b == 0 ? shape.kv_len - 5 : shape.kv_len / 4));
    }
    AttentionCase one = normal_case(padded, 1, indices);
    Random values(2);
    AttentionCase other(masked, {}, [&](Tensor tensor) { return tensor == Tensor::kMask ? 0.0 : values.normal(); });
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t j = 0; j < shape.kv_len; ++j) {
        const bool exists = j >= indices.kv_starts[b] && j < indices.kv_lengths[b];
        other.set(Tensor::kMask, other.mask_offset(b, 0, 0, j), exists ? 255 : 0);
        for (int64_t g = 0; g < shape.kv_heads; ++g) {
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            const double key = exists ? values.normal() : kNaN, value = exists ? values.normal() : kInfinity;
            other.set(Tensor::kK, other.k_offset(b, g, j) + d, key);
            other.set(Tensor::kV, other.v_offset(b, g, j) + d, value);
            if (exists) {
              one.set(Tensor::kK, one.k_offset(b, g, j) + d, key);
              one.set(Tensor::kV, one.v_offset(b, g, j) + d, value);
            }
          }
        }
      }
    }
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        one.set(Tensor::kQ, one.q_offset(b, h, i) + d, other.q_value(other.q_offset(b, h, i) + d));
      }
    });
    ASSERT_NO_FATAL_FAILURE(run(one));
    ASSERT_NO_FATAL_FAILURE(run(other));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      EXPECT_TRUE(rows_are_identical(one, other, b, h, i)) << "row " << i << ' ' << other.describe();
    });
  }
}

// Rows of one tile that see every other key, none, all of them and those of a few blocks.
TEST_P(AttentionLaws, AMaskOfRowsHidesKeysFromThemAlone) {
  for (const Shape& shape : {Shape{1, 2, 1, 70, 700, 64}, Shape{2, 8, 2, 1, 700, 40}, Shape{1, 2, 2, 5, 300, 128}}) {
    fms_attention_problem problem = simple_problem(dtype(), shape);
    problem.features |= FMS_MASK;
    problem.mask = {0, shape.q_len * shape.kv_len, shape.kv_len, 1, 1};
    AttentionCase one = normal_case(problem);
    const auto is_shown = [](int64_t h, int64_t i, int64_t j) {
      const int64_t kind = (h + i) % 4;
      return kind == 0 ? j % 2 == 0 : kind == 1 ? false : kind == 2 || j / 64 % 3 == 1;
    };
    for (int64_t h = 0; h < shape.q_heads; ++h) {
      for (int64_t i = 0; i < shape.q_len; ++i) {
        for (int64_t j = 0; j < shape.kv_len; ++j) {
          one.set(Tensor::kMask, one.mask_offset(0, h, i, j), is_shown(h, i, j) ? 1 : 0);
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      EXPECT_EQ(row_is_empty(one, b, h, i, -kInfinity), (h + i) % 4 == 1) << h << ' ' << i;
    });
    one.set(Tensor::kV, one.v_offset(0, 0, 1), kInfinity);  // a key that every fourth row sees
    one.set(Tensor::kK, one.k_offset(0, 0, 3), kNaN);
    ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
  }
}

TEST_P(AttentionLaws, ARowWithoutKeysIsZeroAndMinusInfinity) {
  for (const bool with_sink : {false, true}) {
    for (const int64_t kv_len : {0, 1, 20}) {
      fms_attention_problem problem = simple_problem(dtype(), {2, 2, 1, 50, kv_len, 64});
      problem.window_right = 0;  // the first 50 - kv_len rows see nothing
      problem.features |= with_sink ? FMS_SINKS : 0;
      AttentionCase one = normal_case(problem);
      ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
      for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
        if (i < 50 - kv_len) {
          const double expected_lse = with_sink ? one.args().sinks[h] : -kInfinity;
          EXPECT_TRUE(row_is_empty(one, b, h, i, expected_lse)) << "row " << i << ' ' << one.describe();
        }
      });
    }
  }
}

TEST_P(AttentionLaws, ABiasOfMinusInfinityEverywhereIsARowWithoutWeight) {
  for (const Shape& shape : kLawShapes) {
    for (const bool with_sink : {false, true}) {
      fms_attention_problem problem = simple_problem(dtype(), shape);
      problem.features |= FMS_BIAS | (with_sink ? FMS_SINKS : 0);
      problem.bias_dtype = dtype();
      problem.bias = {0, 0, shape.kv_len, 1, 1};
      AttentionCase one = normal_case(problem);
      const int64_t masked_row = shape.q_len / 2;
      for (int64_t j = 0; j < shape.kv_len; ++j) {
        one.set(Tensor::kBias, one.bias_offset(0, 0, masked_row, j), -kInfinity);
      }
      ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
      for (int64_t h = 0; h < shape.q_heads; ++h) {
        const double expected_lse = with_sink ? one.args().sinks[h] : -kInfinity;
        EXPECT_TRUE(row_is_empty(one, 0, h, masked_row, expected_lse)) << one.describe();
      }
    }
  }
}

// ---- NaN and infinity ------------------------------------------------------------------------------------------

TEST_P(AttentionLaws, TheLowestFloatAsABiasIsNoMask) {
  constexpr double value = 0.5;
  for (const Shape& shape : kLawShapes) {
    fms_attention_problem problem = simple_problem(dtype(), shape);
    problem.features |= FMS_BIAS;
    problem.bias_dtype = FMS_F32;
    problem.bias = {0, 0, 0, 1, 1};
    AttentionCase one = normal_case(problem);
    for (int64_t j = 0; j < shape.kv_len; ++j) {
      one.set(Tensor::kBias, one.bias_offset(0, 0, 0, j), std::numeric_limits<float>::lowest());
      for (int64_t b = 0; b < shape.batch; ++b) {
        for (int64_t g = 0; g < shape.kv_heads; ++g) {
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            one.set(Tensor::kV, one.v_offset(b, g, j) + d, value);
          }
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(run(one));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      EXPECT_NEAR(one.o_value(one.o_offset(b, h, i)), value, mean_error(value, value, shape.kv_len));
      EXPECT_GT(one.lse_value(one.lse_offset(b, h, i)), -kInfinity);
    });
  }
}

TEST_P(AttentionLaws, NaNInAQueryPoisonsItsRowOnly) {
  for (const Shape& shape : kLawShapes) {
    const fms_attention_problem problem = simple_problem(dtype(), shape);
    AttentionCase one = normal_case(problem);
    AttentionCase poisoned = normal_case(problem);
    const int64_t poisoned_row = shape.q_len / 2, poisoned_head = shape.q_heads - 1;
    poisoned.set(Tensor::kQ, poisoned.q_offset(0, poisoned_head, poisoned_row) + shape.head_dim - 1, kNaN);
    ASSERT_NO_FATAL_FAILURE(run(one));
    ASSERT_NO_FATAL_FAILURE(run(poisoned));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      if (b == 0 && h == poisoned_head && i == poisoned_row) {
        EXPECT_TRUE(row_is_nan(poisoned, b, h, i)) << one.describe();
      } else {
        EXPECT_TRUE(rows_are_identical(one, poisoned, b, h, i)) << h << ' ' << i << ' ' << one.describe();
      }
    });
  }
}

TEST_P(AttentionLaws, AKeyThatScoresNaNOrPlusInfinityPoisonsTheRowsThatSeeIt) {
  for (const Shape& shape : kLawShapes) {
    for (const double poison : {kNaN, kInfinity}) {
      fms_attention_problem problem = simple_problem(dtype(), shape);
      problem.window_right = 0;
      AttentionCase one = normal_case(problem);
      AttentionCase poisoned = normal_case(problem);
      const int64_t poisoned_key = shape.kv_len - 1 - shape.q_len / 2;
      for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {  // a positive query: its score is +inf, not -inf
        one.set(Tensor::kQ, one.q_offset(b, h, i), 0.5);
        poisoned.set(Tensor::kQ, one.q_offset(b, h, i), 0.5);
      });
      poisoned.set(Tensor::kK, poisoned.k_offset(0, 0, poisoned_key), poison);
      ASSERT_NO_FATAL_FAILURE(run(one));
      ASSERT_NO_FATAL_FAILURE(run(poisoned));
      for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
        if (b == 0 && kv_head_of(one, h) == 0 && one.is_visible(b, i, poisoned_key)) {
          EXPECT_TRUE(row_is_nan(poisoned, b, h, i)) << poison << " row " << i << ' ' << one.describe();
        } else {
          EXPECT_TRUE(rows_are_identical(one, poisoned, b, h, i)) << poison << " row " << i << ' ' << one.describe();
        }
      });
    }
  }
}

TEST_P(AttentionLaws, AScoreOfMinusInfinityHasNoWeight) {
  for (const Shape& shape : kLawShapes) {
    AttentionCase one = normal_case(simple_problem(dtype(), shape));
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) { one.set(Tensor::kQ, one.q_offset(b, h, i), 0.5); });
    for (int64_t b = 0; b < shape.batch; ++b) {
      one.set(Tensor::kK, one.k_offset(b, 0, shape.kv_len / 2), -kInfinity);
    }
    ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
  }
}

TEST_P(AttentionLaws, ANonFiniteValueShowsInItsColumnAndNowhereElse) {
  for (const Shape& shape : kLawShapes) {
    for (const double poison : {kNaN, kInfinity, -kInfinity}) {
      const bool hidden_by_bias = poison > 0;
      fms_attention_problem problem = simple_problem(dtype(), shape);
      problem.window_right = 0;
      problem.features |= FMS_BIAS;
      problem.bias_dtype = FMS_F32;
      problem.bias = {0, 0, 0, 1, 1};
      AttentionCase one = normal_case(problem);
      AttentionCase poisoned = normal_case(problem);
      const int64_t poisoned_key = shape.kv_len - 1 - shape.q_len / 2, column = shape.head_dim / 2;
      // Far below what fp32 can hold as a weight, or no weight at all.
      const double bias = hidden_by_bias ? -kInfinity : -1000.0;
      one.set(Tensor::kBias, one.bias_offset(0, 0, 0, poisoned_key), bias);
      poisoned.set(Tensor::kBias, one.bias_offset(0, 0, 0, poisoned_key), bias);
      poisoned.set(Tensor::kV, one.v_offset(0, 0, poisoned_key) + column, poison);
      ASSERT_NO_FATAL_FAILURE(run(one));
      ASSERT_NO_FATAL_FAILURE(run(poisoned));
      for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
        const bool sees_it = b == 0 && kv_head_of(one, h) == 0 && one.is_visible(b, i, poisoned_key);
        EXPECT_TRUE(rows_are_identical(one, poisoned, b, h, i, sees_it ? column : -1))
            << poison << " row " << i << ' ' << one.describe();
        if (sees_it) {
          EXPECT_FALSE(std::isfinite(poisoned.o_value(poisoned.o_offset(b, h, i) + column)))
              << poison << " hidden_by_bias " << hidden_by_bias << " row " << i << ' ' << one.describe();
        }
      });
    }
  }
}

// ---- large scores ----------------------------------------------------------------------------------------------

constexpr double kLargeScores[] = {10, 70, 300, 1024, 4096};

// 1 + 3/1024 is as far from a bf16 as an fp16 near 1 is, all to one side, while 1 and 1 + 8/1024 are bf16. Every other
// key is made of those, three in eight of them the larger, so that its score is exactly that of its neighbour: what a
// kernel that splits fp16 leaves out shows in the log-sum-exp and in who gets the weight. fp32 keeps a third part too.
TEST_P(AttentionLaws, LargeScoresDoNotDependOnWhatTheKeysAreMadeOf) {
  constexpr double kFar = 1 + 3.0 / 1024 + 0x3p-19, kNear[] = {1, 1 + 8.0 / 1024};
  for (const Shape& shape : {Shape{1, 2, 1, 70, 70, 16}, Shape{1, 1, 1, 33, 130, 64}}) {
    for (const double score : kLargeScores) {
      for (const int64_t window_right : {-1, 0}) {
        fms_attention_problem problem = simple_problem(dtype(), shape);
        problem.window_right = window_right;
        problem.softmax_scale = static_cast<float>(score / static_cast<double>(shape.head_dim));
        AttentionCase one = normal_case(problem);
        for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            one.set(Tensor::kQ, one.q_offset(b, h, i) + d, kFar);
          }
        });
        for (int64_t j = 0; j < shape.kv_len; ++j) {
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            one.set(Tensor::kK, one.k_offset(0, 0, j) + d, j % 2 == 0 ? kFar : kNear[d % 8 < 3]);
            one.set(Tensor::kV, one.v_offset(0, 0, j) + d, j % 2 == 0 ? 1 : -1);
          }
        }
        SCOPED_TRACE("score " + std::to_string(score));
        ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
      }
    }
  }
}

// All of them times a power of two that its type has.
void scale(AttentionCase& one, Tensor tensor, int exponent) {
  const fms_attention_problem& p = one.problem();
  const bool is_query = tensor == Tensor::kQ;
  const fms_attention_args args = one.args();
  const void* const values = is_query ? args.q : tensor == Tensor::kK ? args.k : args.v;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < (is_query ? p.q_heads : p.kv_heads); ++h) {
      for (int64_t i = 0; i < (is_query ? p.q_len : p.kv_len); ++i) {
        for (int64_t d = 0; d < (tensor == Tensor::kV ? p.value_dim : p.head_dim); ++d) {
          const int64_t at = d + (is_query               ? one.q_offset(b, h, i)
                                  : tensor == Tensor::kK ? one.k_offset(b, h, i)
                                                         : one.v_offset(b, h, i));
          one.set(tensor, at, std::ldexp(load(values, p.dtype, at), exponent));
        }
      }
    }
  }
}

// What is in the parts of a factor, and what tiles take for zero or infinity, must not show in the scores.
TEST_P(AttentionLaws, LargeQueriesMeetSmallKeys) {
  if (dtype() == FMS_F16) GTEST_SKIP() << "fp16 has no such numbers";
  const int most = dtype() == FMS_F32 ? 120 : 110;  // tiles take denormals of bf16 for zero
  for (const Shape& shape : kLawShapes) {
    for (const int exponent : {-most, -60, -50, 50, 60, most}) {
      AttentionCase one = normal_case(simple_problem(dtype(), shape));
      scale(one, Tensor::kQ, exponent);
      scale(one, Tensor::kK, -exponent);
      SCOPED_TRACE("queries times 2^" + std::to_string(exponent));
      ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
    }
  }
}

TEST_P(AttentionLaws, ValuesTimesAPowerOfTwoAreResultsTimesIt) {
  if (dtype() == FMS_F16) GTEST_SKIP() << "fp16 has no such numbers";
  for (const Shape& shape : kLawShapes) {
    for (const int exponent : {-60, 80}) {
      AttentionCase one = normal_case(simple_problem(dtype(), shape));
      AttentionCase scaled = normal_case(simple_problem(dtype(), shape));
      scale(scaled, Tensor::kV, exponent);
      ASSERT_NO_FATAL_FAILURE(run(one));
      ASSERT_NO_FATAL_FAILURE(run(scaled));
      for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          const int64_t at = one.o_offset(b, h, i) + d;
          ASSERT_EQ(scaled.o_value(at), std::ldexp(one.o_value(at), exponent)) << one.describe();
        }
      });
    }
  }
}

// ... where its weight is exactly 1, which scores of 0 have.
TEST_P(AttentionLaws, ARowOfOneKeyIsItsValueToTheBit) {
  constexpr double largest = std::numeric_limits<float>::max();
  constexpr double values[] = {1, -3, 1 + 0x1p-23, largest, -largest, 0x1.fffffep-100, 0x1p-126, 0x1.2p-140};
  const int64_t count = dtype() == FMS_F32 ? 8 : 2;
  fms_attention_problem problem = simple_problem(dtype(), {1, 2, 1, 150, 150, 64});
  problem.window_left = problem.window_right = 0;
  AttentionCase one = normal_case(problem);
  scale(one, Tensor::kQ, -4000);
  for (int64_t j = 0; j < 150; ++j) {
    for (int64_t d = 0; d < 64; ++d) one.set(Tensor::kV, one.v_offset(0, 0, j) + d, values[d % count]);
  }
  ASSERT_NO_FATAL_FAILURE(run(one));
  for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
    for (int64_t d = 0; d < 64; ++d) {
      EXPECT_EQ(one.o_value(one.o_offset(b, h, i) + d), static_cast<float>(values[d % count]));
    }
  });
}

// One sum over all keys would be wrong by the square root of their number.
TEST_P(AttentionLaws, LongSumsOfFp32StaySmooth) {
  if (dtype() != FMS_F32) GTEST_SKIP() << "results of 16 bits do not show it";
  const Shape shape{1, 1, 1, 144, 8192, 64};
  AttentionCase one = normal_case(simple_problem(dtype(), shape));
  for (int64_t j = 0; j < shape.kv_len; ++j) {
    for (int64_t d = 0; d < 64; ++d) one.set(Tensor::kV, one.v_offset(0, 0, j) + d, 1);
  }
  ASSERT_NO_FATAL_FAILURE(run(one));
  double squares = 0;
  for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
    for (int64_t d = 0; d < 64; ++d) squares += std::pow(one.o_value(one.o_offset(b, h, i) + d) - 1, 2);
  });
  EXPECT_LE(std::sqrt(squares / (144 * 64)), 4 * kFloatRoundoff);
}

TEST_P(AttentionLaws, TinyValuesOfFp32CountToo) {
  if (dtype() != FMS_F32) GTEST_SKIP() << "of 16 bits, tiles take such values for zero";
  constexpr int exponent = -125;
  for (const Shape& shape : kLawShapes) {
    AttentionCase one = normal_case(simple_problem(dtype(), shape));
    AttentionCase tiny = normal_case(simple_problem(dtype(), shape));
    scale(tiny, Tensor::kV, exponent);
    ASSERT_NO_FATAL_FAILURE(run(one));
    ASSERT_NO_FATAL_FAILURE(run(tiny));
    // The spacing of denormals, of each value and each sum.
    const double bound = std::ldexp(static_cast<double>(2 * shape.kv_len), -149);
    for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const int64_t at = one.o_offset(b, h, i) + d;
        ASSERT_NEAR(tiny.o_value(at), std::ldexp(one.o_value(at), exponent), bound) << one.describe();
      }
    });
  }
}

// One value that is added on its own beside one that must not be multiplied at all.
TEST_P(AttentionLaws, ANaNBesideATinyValueIsSeenByItsRowsOnly) {
  fms_attention_problem problem = simple_problem(dtype(), {1, 1, 1, 256, 256, 64});
  problem.window_right = 0;
  AttentionCase one = normal_case(problem);
  one.set(Tensor::kV, one.v_offset(0, 0, 200) + 3, 0x1p-100);
  AttentionCase poisoned = normal_case(problem);
  poisoned.set(Tensor::kV, one.v_offset(0, 0, 200) + 3, 0x1p-100);
  poisoned.set(Tensor::kV, one.v_offset(0, 0, 210) + 7, kNaN);
  ASSERT_NO_FATAL_FAILURE(run(one));
  ASSERT_NO_FATAL_FAILURE(run(poisoned));
  for_each_query(one, [&](int64_t b, int64_t h, int64_t i) {
    EXPECT_TRUE(rows_are_identical(one, poisoned, b, h, i, i >= 210 ? 7 : -1)) << "row " << i;
    EXPECT_EQ(std::isnan(poisoned.o_value(poisoned.o_offset(b, h, i) + 7)), i >= 210) << "row " << i;
  });
}

// Longer than a step of any kernel: maxima are raised in later steps, or not.
TEST_P(AttentionLaws, NoRowNoticesTheScoresOfAnother) {
  const Shape shape{1, 1, 1, 700, 700, 128};
  fms_attention_problem problem = simple_problem(dtype(), shape);
  problem.window_right = 0;
  constexpr int64_t loud = 607, not_a_number = 600;
  AttentionCase one = normal_case(problem);
  AttentionCase other = normal_case(problem);
  for (int64_t d = 0; d < shape.head_dim; ++d) {
    const double q = load(one.args().q, dtype(), one.q_offset(0, 0, loud) + d);
    other.set(Tensor::kK, other.k_offset(0, 0, loud) + d, 2 * q);
  }
  other.set(Tensor::kQ, other.q_offset(0, 0, not_a_number), kNaN);
  ASSERT_NO_FATAL_FAILURE(run(one));
  ASSERT_NO_FATAL_FAILURE(run(other));
  for (int64_t i = 0; i < loud; ++i) {
    if (i == not_a_number) continue;
    EXPECT_TRUE(rows_are_identical(one, other, 0, 0, i)) << "row " << i;
  }
}

TEST_P(AttentionLaws, LargeScoresOfNearDuplicateKeysAreTold) {
  const Shape shape{1, 1, 1, 96, 96, 64};
  for (const double score : kLargeScores) {
    AttentionCase one = normal_case(simple_problem(dtype(), shape));
    Random random(3);
    const double size = std::sqrt(score / std::sqrt(static_cast<double>(shape.head_dim)));
    for (int64_t j = 0; j < shape.kv_len; j += 2) {
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const double value = size * random.normal();
        for (int64_t twin = 0; twin < 2; ++twin) {
          one.set(Tensor::kQ, one.q_offset(0, 0, j + twin) + d, value);
          one.set(Tensor::kK, one.k_offset(0, 0, j + twin) + d, value + 2e-3 * size * random.normal());
        }
      }
    }
    SCOPED_TRACE("score " + std::to_string(score));
    ASSERT_NO_FATAL_FAILURE(run_and_judge(one));
  }
}

// ---- what the planner may choose must not show -----------------------------------------------------------------

TEST_P(AttentionLaws, ForcedChoicesKeepTheAnswerRight) {
  for (const Shape& shape : kLawShapes) {
    fms_attention_problem problem = simple_problem(dtype(), shape);
    problem.window_right = 0;
    AttentionCase one = normal_case(problem);
    const OracleAnswer oracle(one);
    for (const fms_plan_options& options :
         {plan_options(1, 1, 1), plan_options(1, 1024, 13), plan_options(2, 7, 0), plan_options(5, 2, 64)}) {
      one.reset_outputs();
      ASSERT_NO_FATAL_FAILURE(run(one, &options));
      EXPECT_EQ(judge(one, oracle).complaint, "") << "threads " << options.threads << " kv_splits " << options.kv_splits
                                                  << " q_tile " << options.q_tile << ' ' << one.describe();
      EXPECT_EQ(one.stray_write().value_or(""), "") << one.describe();
    }
  }
}

// Sequences of one batch take different kernels where that is faster, in any order, their keys split or not.
TEST_P(AttentionLaws, DecodesBesideAPrefillKeepTheAnswerRight) {
  const IndexArrays indices{
      .cu_q = {0, 1, 41, 42, 45, 115, 116}, .cu_kv = {}, .kv_lengths = {300, 40, 65, 130, 90, 7}, .block_table = {}};
  fms_attention_problem problem = simple_problem(dtype(), {6, 8, 2, 70, 300, 64});
  problem.features |= FMS_RAGGED_Q | FMS_KV_LENGTHS;
  problem.total_q = indices.cu_q.back();
  problem.q = problem.o = {0, 64, 8 * 64};
  problem.lse = {0, 1, 8};
  problem.window_right = 0;
  AttentionCase one = normal_case(problem, 1, indices);
  const OracleAnswer oracle(one);
  for (const fms_plan_options& options : {plan_options(1, 1, 0), plan_options(3, 1, 0), plan_options(2, 3, 0)}) {
    one.reset_outputs();
    ASSERT_NO_FATAL_FAILURE(run(one, &options));
    EXPECT_EQ(judge(one, oracle).complaint, "") << "threads " << options.threads << " kv_splits " << options.kv_splits;
    EXPECT_EQ(one.stray_write().value_or(""), "");
  }
}

std::string law_name(const ::testing::TestParamInfo<std::tuple<fms_cpu_isa, fms_dtype>>& param_info) {
  return std::string(fms_cpu_isa_name(std::get<0>(param_info.param))) + "_" + dtype_name(std::get<1>(param_info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionLaws,
                         ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(kAllDtypes)),
                         law_name);

}  // namespace
}  // namespace flashmoe::testing
