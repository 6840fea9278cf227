// How a run is dealt out among threads when the sequences of a batch have different lengths.
#include "kernels/cpu/attention/work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace flashmoe::cpu {
namespace {

struct Dealt {
  std::vector<int64_t> work;  // of each thread
  int64_t total = 0, largest = 0, pieces = 0;
};

// One query a sequence, 8 query heads for each of 2 kv heads.
Dealt deal(const std::vector<int32_t>& lengths, int32_t splits, int64_t threads) {
  fms_attention_plan plan{};
  fms_attention_problem& p = plan.problem;
  p.batch = static_cast<int64_t>(lengths.size());
  p.q_heads = 16;
  p.kv_heads = 2;
  p.q_len = 1;
  p.kv_len = *std::max_element(lengths.begin(), lengths.end());
  p.window_left = p.window_right = -1;
  p.features = FMS_KV_LENGTHS;
  plan.q_tile = 16;
  plan.kv_splits = splits;
  fms_attention_args args{};
  args.kv_lengths = lengths.data();
  Dealt dealt;
  dealt.work.resize(static_cast<std::size_t>(threads));
  for (int64_t thread = 0; thread < threads; ++thread) {
    for_each_item(plan, args, {thread, threads}, [&](const Head& h, int64_t first_row, int64_t last_row, int64_t) {
      const int64_t cost = item_cost(h, first_row, last_row) / splits;
      dealt.work[static_cast<std::size_t>(thread)] += cost;
      dealt.total += cost;
      dealt.largest = std::max(dealt.largest, cost);
      ++dealt.pieces;
    });
  }
  return dealt;
}

TEST(DealingOut, UnequalSequencesAreBalancedWhereNoPieceIsMoreThanATenthOfAShare) {
  // All alike, ever longer, one long beside short ones, and none at all in between.
  const auto length_of = [](int shape, int64_t b, int64_t batch) -> int32_t {
    switch (shape) {
      case 0:
        return 2048;
      case 1:
        return static_cast<int32_t>(64 + 4096 * b / batch);
      case 2:
        return b == batch / 3 ? 16384 : 256;
      default:
        return static_cast<int32_t>(b % 3 == 0 ? 0 : 512 + 977 * b % 3001);
    }
  };
  int64_t judged = 0;
  for (const int64_t threads : {1, 2, 3, 7, 16, 64, 256}) {
    for (const int64_t batch : {1, 5, 40, 300, 1200}) {
      for (const int32_t splits : {1, 2, 8}) {
        for (int shape = 0; shape < 4; ++shape) {
          std::vector<int32_t> lengths;
          for (int64_t b = 0; b < batch; ++b) lengths.push_back(length_of(shape, b, batch));
          const Dealt dealt = deal(lengths, splits, threads);
          EXPECT_EQ(dealt.pieces, 2 * batch * splits) << "every piece is somebody's, and one thread's only";
          const double share = static_cast<double>(dealt.total) / static_cast<double>(threads);
          if (10 * static_cast<double>(dealt.largest) > share) continue;
          ++judged;
          EXPECT_GE(share / static_cast<double>(*std::max_element(dealt.work.begin(), dealt.work.end())), 0.9)
              << threads << " threads, " << batch << " sequences, shape " << shape << ", " << splits << " splits";
        }
      }
    }
  }
  EXPECT_GT(judged, 100);
}

// Nobody may add it, not even to an address that nobody reads: the sanitizers see it.
TEST(KvRows, OfOneKeyAnyStrideIsLegal) {
  const float keys[1] = {};
  const int32_t pages[1] = {0};
  constexpr int64_t stride = int64_t{1} << 60;
  for (const KvRows<float>& rows : {KvRows<float>{keys, stride, 0, 0, 0, nullptr}, {keys, stride, 0, 1, 1, pages}}) {
    const float* found = nullptr;
    rows.find({0, 1}, &found);
    EXPECT_EQ(found, keys);
  }
}

}  // namespace
}  // namespace flashmoe::cpu
