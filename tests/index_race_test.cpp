// A caller that changes index arrays while a run reads them gets a wrong answer or an error, and no more: every value
// is brought inside its bounds where it is used. Buffers end at unreadable pages, or are watched by the address
// sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

// Writes one entry after the other, each good, then bad, then good again, until it is told to stop.
class Flipper {
 public:
  Flipper(const int32_t* array, size_t count)
      : array_(const_cast<int32_t*>(array)), good_(array, array + count), thread_([this] { flip(); }) {}
  ~Flipper() {
    is_done_ = true;
    thread_.join();
  }
  Flipper(const Flipper&) = delete;
  Flipper& operator=(const Flipper&) = delete;

 private:
  void flip() {
    constexpr int32_t kBad[] = {std::numeric_limits<int32_t>::max(), -1, 1 << 20, std::numeric_limits<int32_t>::min()};
    for (size_t round = 0; !is_done_; ++round) {
      const size_t at = round % good_.size();
      std::atomic_ref<int32_t> entry(array_[at]);
      entry.store(kBad[round / good_.size() % std::size(kBad)], std::memory_order_relaxed);
      for (int wait = 0; wait < 200; ++wait) std::atomic_signal_fence(std::memory_order_seq_cst);
      entry.store(good_[at], std::memory_order_relaxed);
      for (int wait = 0; wait < 2000; ++wait) std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }

  int32_t* array_;
  std::vector<int32_t> good_;
  std::atomic<bool> is_done_{false};
  std::thread thread_;
};

struct Race {
  const char* name;
  uint32_t features;
  IndexArrays indices;
  const int32_t* fms_attention_args::*array;
  size_t entries;
};

void run_beside(const Race& race, fms_dtype dtype, int64_t q_len) {
  constexpr int64_t kBatch = 3, kHeads = 4, kKeys = 96, kDim = 64;
  fms_attention_problem problem = simple_problem(dtype, {kBatch, kHeads, 2, q_len, kKeys, kDim});
  problem.features |= race.features;
  if ((race.features & FMS_RAGGED_Q) != 0) {
    problem.total_q = race.indices.cu_q.back();
    problem.q = problem.o = {0, kDim, kHeads * kDim};
    problem.lse = {0, 1, kHeads};
  }
  if ((race.features & FMS_RAGGED_KV) != 0) {
    problem.total_kv = race.indices.cu_kv.back();
    problem.k = problem.v = {0, kDim, 2 * kDim};
  }
  if ((race.features & FMS_PAGED_KV) != 0) {
    problem.page_size = 16;
    problem.page_count = 18;
    problem.block_table_stride = 6;
    problem.k = problem.v = {2 * 16 * kDim, 16 * kDim, kDim};
  }
  std::vector<fms_cpu_isa> isas = available_isas();
  if (kSlowBuild) isas = {isas.back()};
  for (const fms_cpu_isa isa : isas) {
    const Context context = make_context(isa);
    for (const fms_plan_options& options : {plan_options(2, 0, 0), plan_options(2, 3, 0)}) {
      AttentionCase one = normal_case(problem, 1, race.indices);
      fms_attention_plan plan;
      ASSERT_EQ(fms_attention_plan_make(context.get(), &problem, &options, &plan, nullptr), FMS_OK);
      const FencedBuffer workspace(plan.workspace_bytes, Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
      const fms_attention_args args = one.args();
      // A flipper that was put to sleep at the wrong moment leaves nothing to be accepted for a while.
      constexpr int kAccepted = kSlowBuild ? 5 : 30;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      int accepted = 0;
      {
        const Flipper flipper(args.*race.array, race.entries);
        while (accepted < kAccepted && std::chrono::steady_clock::now() < deadline) {
          fms_error error{};
          const fms_status status =
              fms_attention_run(context.get(), &plan, &args, workspace.data(), workspace.bytes(), nullptr, &error);
          ASSERT_TRUE(status == FMS_OK || status == FMS_INVALID_ARGUMENT) << to_string(error);
          accepted += status == FMS_OK ? 1 : 0;
          if (status != FMS_OK) std::this_thread::yield();
        }
      }
      EXPECT_EQ(accepted, kAccepted) << race.name << ": runs do not get past the check, and nothing is tested";
    }
  }
}

TEST(IndexRace, EveryArrayMayChangeWhileItIsRead) {
  IndexArrays ragged{{0, 70, 100, 170}, {0, 90, 150, 240}, {}, {}},
      paged{{}, {}, {96, 50, 80}, {}, {10, 0, 40}, {70, 1, 33}};
  for (int32_t page = 0; page < 18; ++page) paged.block_table.push_back(17 - page);
  const Race races[] = {
      {"cu_q", FMS_RAGGED_Q, ragged, &fms_attention_args::cu_q, 4},
      {"cu_kv", FMS_RAGGED_KV, ragged, &fms_attention_args::cu_kv, 4},
      {"kv_lengths", FMS_KV_LENGTHS, paged, &fms_attention_args::kv_lengths, 3},
      {"kv_lengths of pages", FMS_KV_LENGTHS | FMS_PAGED_KV, paged, &fms_attention_args::kv_lengths, 3},
      {"kv_starts", FMS_KV_STARTS, paged, &fms_attention_args::kv_starts, 3},
      {"q_lengths", FMS_Q_LENGTHS, paged, &fms_attention_args::q_lengths, 3},
      {"block_table", FMS_PAGED_KV, paged, &fms_attention_args::block_table, 18},
  };
  for (const Race& race : races) {
    SCOPED_TRACE(race.name);
    for (const fms_dtype dtype : {FMS_F16, FMS_F32}) {
      run_beside(race, dtype, 70);
      const bool has_row_lengths = (race.features & (FMS_RAGGED_Q | FMS_Q_LENGTHS)) != 0;
      run_beside(race, dtype, has_row_lengths ? 70 : 1);
    }
  }
}

}  // namespace
}  // namespace flashmoe::testing
