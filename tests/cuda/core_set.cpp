#include "cuda/core_set.hpp"

#include <algorithm>
#include <numeric>

namespace flashmoe::testing {

void make_ragged(CoreProblem& one, const std::vector<int32_t>& q_lengths, const std::vector<int32_t>& kv_lengths) {
  fms_attention_problem& p = one.problem;
  const auto begins = [](const std::vector<int32_t>& lengths) {
    std::vector<int32_t> sums = {0};
    for (const int32_t length : lengths) sums.push_back(sums.back() + length);
    return sums;
  };
  one.indices.cu_q = begins(q_lengths);
  one.indices.cu_kv = begins(kv_lengths);
  p.features |= FMS_RAGGED_Q | FMS_RAGGED_KV;
  p.batch = static_cast<int64_t>(q_lengths.size());
  p.q_len = std::ranges::max(q_lengths);
  p.kv_len = std::ranges::max(kv_lengths);
  p.total_q = one.indices.cu_q.back();
  p.total_kv = one.indices.cu_kv.back();
  // Tokens outermost, as servers pack them.
  p.q = p.o = {0, p.head_dim, p.q_heads * p.head_dim};
  p.k = p.v = {0, p.head_dim, p.kv_heads * p.head_dim};
  p.lse = {0, p.total_q, 1};
}

void make_paged(CoreProblem& one, int64_t page_size, const std::vector<int32_t>& kv_lengths) {
  fms_attention_problem& p = one.problem;
  p.features |= FMS_PAGED_KV | FMS_KV_LENGTHS;
  one.indices.kv_lengths = kv_lengths;
  p.page_size = page_size;
  p.block_table_stride = (p.kv_len + page_size - 1) / page_size;
  p.page_count = p.batch * p.block_table_stride;
  p.k = p.v = {p.kv_heads * page_size * p.head_dim, page_size * p.head_dim, p.head_dim};
  // Pages in falling order; entries past the end of a sequence must not be followed.
  one.indices.block_table.assign(static_cast<std::size_t>(p.page_count), -1);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t page = 0; page * page_size < kv_lengths[static_cast<std::size_t>(b)]; ++page) {
      const int64_t slot = b * p.block_table_stride + page;
      one.indices.block_table[static_cast<std::size_t>(slot)] = static_cast<int32_t>(p.page_count - 1 - slot);
    }
}

void add_bias(CoreProblem& one, fms_dtype dtype) {
  fms_attention_problem& p = one.problem;
  p.features |= FMS_BIAS;
  p.bias_dtype = dtype;
  p.bias = {0, p.q_len * p.kv_len, p.kv_len, 1, 1};
}

CoreProblem& set_value_dim(CoreProblem& one, int64_t value_dim) {
  fms_attention_problem& p = one.problem;
  p.value_dim = value_dim;
  p.v = {p.kv_heads * p.kv_len * value_dim, p.kv_len * value_dim, value_dim};
  p.o = {p.q_heads * p.q_len * value_dim, p.q_len * value_dim, value_dim};
  return one;
}

std::vector<CoreProblem> core_set() {
  std::vector<CoreProblem> set;
  // The problem just added, for what is special about it.
  const auto add = [&](const char* name, fms_dtype dtype, const Shape& shape, int32_t q_tile,
                       int32_t splits) -> CoreProblem& {
    set.push_back({name, simple_problem(dtype, shape), {}, plan_options(0, splits, q_tile)});
    return set.back();
  };
  add("large, d 64, causal", FMS_F16, {1, 2, 2, 130, 330, 64}, 64, 1).problem.window_right = 0;
  {
    CoreProblem& one = add("large, d 128, window", FMS_BF16, {1, 1, 1, 70, 200, 128}, 64, 1);
    one.problem.window_left = 37;
    one.problem.window_right = 5;
  }
  add("large, d 256", FMS_F16, {1, 1, 1, 20, 70, 256}, 64, 1);
  add("small, d 64", FMS_BF16, {1, 2, 2, 33, 300, 64}, 32, 1);
  add("small, d 128, GQA, causal", FMS_F16, {1, 4, 2, 21, 90, 128}, 32, 1).problem.window_right = 0;
  add("decode, d 64, GQA", FMS_F16, {1, 8, 2, 1, 400, 64}, 16, 1);
  make_paged(add("decode, d 128, paged", FMS_BF16, {2, 4, 1, 1, 290, 128}, 16, 1), 16, {290, 75});
  add("decode, d 192", FMS_BF16, {1, 1, 1, 3, 100, 192}, 16, 1);
  add("wide, d 64, causal", FMS_F16, {1, 1, 1, 200, 520, 64}, 128, 1).problem.window_right = 0;
  add("wide, d 128", FMS_BF16, {1, 1, 1, 60, 300, 128}, 128, 1);
  add("wide, d 128, GQA, causal", FMS_F16, {1, 2, 1, 80, 200, 128}, 128, 1).problem.window_right = 0;
  {
    CoreProblem& one = add("wide, d 64, GQA, window, sinks", FMS_BF16, {1, 4, 2, 70, 300, 64}, 128, 1);
    one.problem.window_left = 37;
    one.problem.window_right = 5;
    one.problem.features |= FMS_SINKS;
  }
  add("head size 37, copied by elements", FMS_F16, {1, 1, 1, 40, 100, 37}, 64, 1);
  add("head size 72 in the kernel of 80", FMS_F16, {1, 1, 1, 40, 100, 72}, 64, 1);
  {
    CoreProblem& one = add("large, ragged, causal", FMS_F16, {3, 2, 1, 1, 1, 64}, 64, 1);
    one.problem.window_right = 0;
    make_ragged(one, {70, 0, 9}, {130, 40, 5});
  }
  {
    CoreProblem& one = add("large, bias and softcap", FMS_F16, {1, 2, 1, 50, 200, 64}, 64, 1);
    one.problem.softcap = 20;
    add_bias(one, FMS_F32);
  }
  {
    CoreProblem& one = add("small, two biases, of groups", FMS_F16, {3, 2, 1, 20, 90, 64}, 32, 1);
    add_bias(one, FMS_BF16);
    one.problem.bias.batch = 2 * 20 * 90;
    one.problem.bias.group = 2;
    one.problem.features |= FMS_BIAS2;
    one.problem.bias2_dtype = FMS_F32;
    one.problem.bias2 = {90, 0, 0, 1, 1};
  }
  set_value_dim(add("large, d 192, values of 128, causal", FMS_BF16, {1, 2, 1, 40, 200, 192}, 64, 1), 128)
      .problem.window_right = 0;
  set_value_dim(add("decode, d 192, values of 128, 3 splits", FMS_F16, {1, 4, 2, 1, 200, 192}, 16, 3), 128);
  add("small, sinks", FMS_BF16, {1, 2, 1, 30, 90, 64}, 32, 1).problem.features |= FMS_SINKS;

  add("large, causal, 3 splits", FMS_F16, {1, 2, 2, 70, 330, 64}, 64, 3).problem.window_right = 0;
  {
    CoreProblem& one = add("small, bias, 4 splits", FMS_BF16, {1, 2, 1, 20, 130, 128}, 32, 4);
    one.problem.features |= FMS_SINKS;
    add_bias(one, FMS_BF16);
  }
  make_paged(add("decode, paged, 7 splits", FMS_F16, {2, 8, 2, 1, 500, 64}, 16, 7), 32, {500, 90});
  add("wide, 2 splits", FMS_F16, {1, 1, 1, 130, 300, 64}, 128, 2);
  add("wide, d 128, causal, 3 splits", FMS_BF16, {1, 1, 1, 40, 150, 128}, 128, 3).problem.window_right = 0;
  add("decode, more splits than keys", FMS_BF16, {1, 2, 1, 2, 20, 64}, 16, 9);
  {
    CoreProblem& one = add("small, ragged, causal, 5 splits", FMS_F16, {3, 2, 1, 1, 1, 64}, 32, 5);
    one.problem.window_right = 0;
    make_ragged(one, {40, 1, 0}, {100, 77, 30});
  }
  // With a list: the same bits in every order, on one GPU.
  {
    CoreProblem& one = add("small, ragged, causal, listed", FMS_F16, {5, 2, 1, 1, 1, 64}, 32, 0);
    one.problem.window_right = 0;
    make_ragged(one, {40, 1, 0, 1, 9}, {700, 77, 30, 400, 150});
  }
  make_paged(add("decode, paged, listed", FMS_BF16, {4, 8, 2, 1, 900, 64}, 16, 0), 32, {500, 0, 900, 17});
  return set;
}

}  // namespace flashmoe::testing
