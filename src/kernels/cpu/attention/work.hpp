// Dividing a run among threads: work items are (batch, kv head, query tile, key split), numbered in that order, and
// each thread takes the neighbouring items whose cost lies in its share. Results never depend on who computed them.
#pragma once

#include <omp.h>

#include <cstdint>

#include "kernels/cpu/attention/geometry.hpp"
#include "kernels/cpu/team.hpp"
#include "support/float_environment.hpp"

namespace flashmoe::cpu {
namespace {

struct Share {
  int64_t thread, threads;

  // Whether cost interval [begin, begin + cost) of `total` belongs to this thread: its midpoint decides.
  [[nodiscard]] bool holds(int64_t begin, int64_t cost, int64_t total) const {
    if (threads == 1) return true;
    const __int128 twice_middle = 2 * static_cast<__int128>(begin) + cost;
    const __int128 owner = twice_middle * threads / (2 * static_cast<__int128>(total));
    return owner == thread;
  }
  [[nodiscard]] bool ends_before(int64_t begin, int64_t total) const {
    return static_cast<__int128>(begin) * threads >= static_cast<__int128>(total) * (thread + 1);
  }
  [[nodiscard]] bool starts_after(int64_t end, int64_t total) const {
    return static_cast<__int128>(end) * threads <= static_cast<__int128>(total) * thread;
  }
};

// Cost of one item in keys x rows, plus what an item costs whatever it sees.
inline int64_t item_cost(const Head& h, int64_t first_row, int64_t last_row) {
  const KeyRange keys = visible_hull(h, first_row, last_row);
  return (keys.hi - keys.lo + 32) * (last_row - first_row + 8);
}

inline int64_t head_cost(const Head& h, int64_t q_tile) {
  int64_t cost = 0;
  for (int64_t row = 0; row < h.rows(); row += q_tile) cost += item_cost(h, row, smaller(row + q_tile, h.rows()));
  return cost;
}

// Calls body(head, first_row, last_row, split) for every item of this thread's share.
template <class Body>
inline void for_each_item(const fms_attention_plan& plan, const fms_attention_args& args, Share share, Body&& body) {
  const fms_attention_problem& p = plan.problem;
  // Without per-sequence lengths, or a mask's, every batch costs the same.
  const bool uniform = (p.features & (plan::lengths_per_sequence | FMS_MASK)) == 0;
  int64_t cost_of_head = head_cost(make_head(p, args, 0, 0), plan.q_tile);
  int64_t total = cost_of_head * p.kv_heads * p.batch;
  if (!uniform) {
    total = 0;
    for (int64_t b = 0; b < p.batch; ++b) total += head_cost(make_head(p, args, b, 0), plan.q_tile) * p.kv_heads;
  }
  if (total == 0) return;
  int64_t begin = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    if (!uniform) cost_of_head = head_cost(make_head(p, args, b, 0), plan.q_tile);
    for (int64_t g = 0; g < p.kv_heads; ++g) {
      if (share.ends_before(begin, total)) return;
      if (share.starts_after(begin + cost_of_head, total)) {
        begin += cost_of_head;
        continue;
      }
      const Head head = make_head(p, args, b, g);
      for (int64_t row = 0; row < head.rows(); row += plan.q_tile) {
        const int64_t last_row = smaller<int64_t>(row + plan.q_tile, head.rows());
        const int64_t cost = item_cost(head, row, last_row);
        for (int64_t split = 0; split < plan.kv_splits; ++split) {
          const int64_t split_begin = begin + cost * split / plan.kv_splits;
          const int64_t split_end = begin + cost * (split + 1) / plan.kv_splits;
          if (share.holds(split_begin, split_end - split_begin, total)) body(head, row, last_row, split);
        }
        begin += cost;
      }
    }
  }
}

// Runs team(share) on the plan's threads, or as many of them as there can be: one parallel region, or none for one
// thread.
template <class Team>
inline int run_team(const fms_attention_plan& plan, Team&& team) {
  const int size = team_size(plan.threads);
  if (size == 1) {
    team(Share{0, 1});
    return 1;
  }
  int threads = 1;
#pragma omp parallel num_threads(size)
  {
    const Share share{omp_get_thread_num(), omp_get_num_threads()};
    if (share.thread == 0) threads = static_cast<int>(share.threads);
    const DefaultFloatEnvironment environment;  // the pool's threads have whatever was left in them
    team(share);
  }
  return threads;
}

// All threads of the team have arrived; also right for a team of one outside a region.
inline void team_barrier(Share share) {
  if (share.threads == 1) return;
#pragma omp barrier
}

}  // namespace
}  // namespace flashmoe::cpu
