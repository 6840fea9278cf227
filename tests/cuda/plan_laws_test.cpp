// What every plan for a GPU has to keep: plans that an engineer would laugh at, by name, and laws over random problems
// on every GPU of the table, with the occupancy of the shipped kernels there. Estimates are the planner's own
// (predicted).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/table_kernels.hpp"
#include "plan/cuda_cost.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

// A GPU of the table with its figures and kernels.
class Card {
 public:
  explicit Card(const Gpu& gpu)
      : id(gpu.id), figures(planner_figures(driver_answers(gpu))), kernels_(table_kernels(gpu)) {}

  // Asked for once for each head size: reading cubins' names is slower than planning.
  [[nodiscard]] std::span<const plan::CudaKernel> kernels_for(const fms_attention_problem& problem) {
    Found& found = by_head_dim_[problem.head_dim];
    if (found.count == 0) {
      EXPECT_EQ(kernels_->find(problem, found.kernels, &found.count, nullptr), FMS_OK);
    }
    return {found.kernels, static_cast<std::size_t>(found.count)};
  }

  const std::string id;
  const PlannerFigures figures;

 private:
  struct Found {
    plan::CudaKernel kernels[plan::CudaKernels::max_found];
    int count = 0;
  };
  std::unique_ptr<plan::CudaKernels> kernels_;
  std::map<int64_t, Found> by_head_dim_;
};

std::deque<Card>& cards() {
  static std::deque<Card> all = [] {
    std::deque<Card> made;
    for (const Gpu& gpu : all_gpus()) made.emplace_back(gpu);
    return made;
  }();
  return all;
}

struct Planned {
  int64_t q_tile = 0, splits = 0;
  double clocks = 0, cost = 0, io_bytes = 0, workspace_bytes = 0;
};

Planned planned(Card& card, const fms_attention_problem& problem, int32_t forced_splits = 0) {
  const plan::CudaWork work(problem);
  const fms_plan_options options = {sizeof options, 0, forced_splits, 0};
  const auto choice = plan::choose_cuda(card.kernels_for(problem), work, options, card.figures);
  fms_attention_plan made{};
  made.problem = problem;
  fms_error error{};
  EXPECT_EQ(plan::finish_cuda_plan(*choice.kernel, choice.splits, card.figures.sm_count, made, &error), FMS_OK);
  return {made.q_tile, made.kv_splits, choice.clocks,
          choice.cost, work.io_bytes,  static_cast<double>(made.workspace_bytes)};
}

fms_attention_problem problem_of(const Shape& shape, bool is_causal = false) {
  fms_attention_problem problem = simple_problem(FMS_F16, shape);
  if (is_causal) problem.window_right = 0;
  return problem;
}

std::string described(const Card& card, const fms_attention_problem& p, const Planned& made) {
  std::ostringstream text;
  text << card.id << " B" << p.batch << ' ' << p.q_heads << '/' << p.kv_heads << " q " << p.q_len << " kv " << p.kv_len
       << " D " << p.head_dim << (p.window_right == 0 ? " causal" : "") << ": tile " << made.q_tile << ", splits "
       << made.splits << ", " << made.clocks << " clocks, cost " << made.cost << ", workspace " << made.workspace_bytes
       << " of " << made.io_bytes << " bytes";
  return text.str();
}

// ---- by name -------------------------------------------------------------------------------------------------------

struct Named {
  const char* gpu;
  Shape shape;
  bool is_causal;
  int64_t most_tile, most_splits;
};
constexpr Named named[] = {
    {"l4", {1, 32, 32, 1024, 1024, 128}, true, 128, 1},  // was: 2 splits, 36 MB of workspace for 34 MB of I/O
    {"a100", {64, 32, 8, 1, 4096, 128}, false, 16, 2},   // was: a 128-row tile for 4 rows, 143 MB
    {"a100", {4, 128, 128, 1, 4096, 64}, false, 16, 2},
    {"a100", {4, 128, 128, 1, 1024, 64}, false, 16, 2},
    {"l4", {1, 12, 12, 1, 4096, 64}, false, 16, 20},  // was: a 64-row tile for 1 row
    {"l4", {1, 16, 16, 1, 4096, 64}, false, 16, 20},
    {"l4", {1, 32, 32, 1, 4096, 64}, false, 16, 20},
    {"l4", {1, 12, 12, 1, 4096, 128}, false, 16, 20},
    {"l4", {1, 16, 16, 1, 4096, 128}, false, 16, 20},
    {"l4", {1, 32, 32, 1, 4096, 128}, false, 16, 20},
    {"h100", {1, 12, 12, 1500, 1500, 128}, false, 128, 1},  // was: 4 splits
    {"h100", {8, 32, 8, 197, 197, 64}, false, 128, 1},
    {"h100", {8, 32, 8, 197, 197, 128}, false, 128, 1},
};

TEST(PlanLaws, PlansThatWereLaughedAtAreGone) {
  for (const Named& one : named)
    for (Card& card : cards()) {
      if (card.id != one.gpu) continue;
      const fms_attention_problem problem = problem_of(one.shape, one.is_causal);
      const Planned made = planned(card, problem);
      EXPECT_LE(made.q_tile, one.most_tile) << described(card, problem, made);
      EXPECT_LE(made.splits, one.most_splits) << described(card, problem, made);
    }
}

// ---- laws ----------------------------------------------------------------------------------------------------------

enum class Kind { decode, prefill, few_queries, chunk };

class RandomShapes {
 public:
  explicit RandomShapes(unsigned seed) : random_(seed) {}

  // Lengths and counts spread over their orders of magnitude.
  Kind next(Shape& shape, bool& is_causal) {
    constexpr int64_t dims[] = {32, 40, 64, 80, 96, 100, 128, 192, 256}, groups[] = {1, 1, 2, 4, 8};
    shape.batch = spread(1, 128);
    shape.kv_heads = spread(1, 64);
    shape.q_heads = shape.kv_heads * groups[below(std::size(groups))];
    shape.head_dim = dims[below(std::size(dims))];
    is_causal = below(2) == 1;
    const Kind kind = static_cast<Kind>(below(4));
    switch (kind) {
      case Kind::decode:
        shape.q_len = 1;
        shape.kv_len = spread(17, 131072);
        is_causal = false;
        break;
      case Kind::prefill:
        shape.q_len = shape.kv_len = spread(17, 32768);
        break;
      case Kind::few_queries:
        shape.q_len = spread(2, 64);
        shape.kv_len = std::max(spread(17, 65536), shape.q_len);
        break;
      case Kind::chunk:
        shape.q_len = spread(64, 2048);
        shape.kv_len = shape.q_len + spread(1, 65536);
        break;
    }
    return kind;
  }
  int64_t below(std::size_t count) { return static_cast<int64_t>(random_() % count); }

 private:
  int64_t spread(double low, double high) {
    const double at = static_cast<double>(random_() % 100'001) / 100'000;
    return std::llround(low * std::pow(high / low, at));
  }
  std::mt19937_64 random_;
};

// At most 6 % more.
int64_t a_little_more(int64_t length) {
  return length + length * 6 / 100;
}

TEST(PlanLaws, HoldForRandomProblemsOnEveryGpu) {
  const char* const asked = std::getenv("FMS_PLAN_SHAPES");
  const int shapes = asked != nullptr ? std::atoi(asked) : 20'000;
  RandomShapes random(20261116);
  for (int i = 0; i < shapes && !HasFailure(); ++i) {
    Shape shape{};
    bool is_causal = false;
    const Kind kind = random.next(shape, is_causal);
    const auto with = [&](auto change) {
      Shape more = shape;
      change(more);
      if (kind == Kind::prefill) more.q_len = more.kv_len;
      return problem_of(more, is_causal);
    };
    const fms_attention_problem problem = with([](Shape&) {});
    const fms_attention_problem longer = with([&](Shape& s) {
      s.kv_len = a_little_more(s.kv_len);
      if (kind == Kind::chunk) s.q_len = a_little_more(s.q_len);
    });
    const int64_t more_keys = 1 + random.below(static_cast<std::size_t>(shape.kv_len));
    const int64_t more_queries = 1 + random.below(static_cast<std::size_t>(shape.q_len));
    const fms_attention_problem more_work[] = {
        with([](Shape& s) { s.batch += 1 + s.batch / 8; }), with([](Shape& s) {
          const int64_t group = s.q_heads / s.kv_heads;
          s.kv_heads += 1 + s.kv_heads / 8;
          s.q_heads = s.kv_heads * group;
        }),
        with([&](Shape& s) { s.kv_len += more_keys; }),
        with([&](Shape& s) {  // with their keys: a causal row sees what is before it
          s.q_len += more_queries;
          s.kv_len += more_queries;
        })};
    for (Card& card : cards()) {
      const Planned made = planned(card, problem);
      SCOPED_TRACE(described(card, problem, made));
      const int64_t rows = problem.q_len * (problem.q_heads / problem.kv_heads);
      EXPECT_LE(made.q_tile, std::max<int64_t>(2 * rows, 16)) << "16 rows are the least there is";
      const double room = plan::room_for_states(plan::CudaWork(problem), card.figures), spare = room - made.io_bytes;
      const auto is_large = [&](const Planned& one) { return one.workspace_bytes > room / 4; };
      if (is_large(made)) {
        EXPECT_GE(planned(card, problem, 1).clocks, 1.3 * made.clocks) << "a workspace like this has to be worth it";
      }
      // What is weighed is continuous; clocks and bytes may jump where a large workspace begins to be worth it.
      const Planned next = planned(card, longer);
      const auto moved = [&](const Planned& one) { return one.io_bytes + one.workspace_bytes + spare; };
      const double bytes = moved(next) / moved(made);
      const double cost = next.cost / made.cost;
      EXPECT_TRUE((bytes < 1.5 && bytes > 1 / 1.5) || is_large(made) || is_large(next))
          << bytes << " x bytes: " << described(card, longer, next);
      // A little more may be a second round of CTAs where one was enough: a step of the GPU's own.
      EXPECT_TRUE(cost < 2) << cost << " x the cost: " << described(card, longer, next);
      EXPECT_GE(cost, 0.93) << described(card, longer, next);
      for (const fms_attention_problem& more : more_work) {
        const Planned larger = planned(card, more);
        // Of what a larger tile would have gained less than 5 % is left alone.
        EXPECT_GE(larger.cost, 0.93 * made.cost) << described(card, more, larger);
      }
    }
  }
}

}  // namespace
}  // namespace flashmoe::testing
