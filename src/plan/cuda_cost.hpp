// What the planner takes a launch on a GPU to cost. An estimate is continuous where the machine's own behaviour is
// nearly so, and grows with the work: a plan must not depend on which side of a step a problem happens to lie.
#pragma once

#include <cstdint>
#include <span>

#include "plan/planner.hpp"

namespace flashmoe::plan {

inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// A problem in the words of the estimate.
struct CudaWork {
  int64_t rows;   // packed query rows of a kv head
  int64_t group;  // of them, those of a query: they see the same keys
  int64_t heads;  // batch x kv heads
  int64_t batch;
  int64_t head_dim, value_dim;
  int64_t most_keys;   // that a row sees
  double keys;         // that an average row sees
  bool is_masked;      // rows see different keys
  int64_t total_rows;  // ragged: of all sequences together, for one kv head; else 0
  double io_bytes;     // of queries, keys, values and results

  explicit CudaWork(const fms_attention_problem& problem);
  // Tiles of so many rows that have rows at all: of ragged batches a grid without a list holds more.
  [[nodiscard]] int64_t tiles(int32_t q_tile) const;
};

// One kernel on one problem.
class CudaCost {
 public:
  CudaCost(const CudaKernel& kernel, const CudaWork& work, const PlannerFigures& gpu);

  [[nodiscard]] int64_t tiles() const { return tiles_; }
  // Clocks of an SM until the last CTA is done, with the keys split so many ways.
  [[nodiscard]] double clocks(int64_t splits) const;
  // What choices are made by: clocks, and more where the workspace is large.
  [[nodiscard]] double cost(int64_t splits) const;

 private:
  const PlannerFigures& gpu_;
  const TuningPolicy& policy_;
  const CudaKernel& kernel_;
  const CudaWork& work_;
  int64_t tiles_;
  int key_warps_;
  double full_tiles_;
  double tile_keys_, masked_keys_;  // that an average tile sees, and as many more as masking takes
  double wave_share_;
  double least_l2_bytes_per_clock_;  // an SM's
  double block_alone_, block_busy_, block_bytes_;
};

// Beside which a workspace is small: what the problem itself moves, and for prompts, whose states stay in L2 as they do
// themselves, more of that the longer they are: short ones have not much to gain.
[[nodiscard]] double room_for_states(const CudaWork& work, const PlannerFigures& gpu);

struct CudaChoice {
  const CudaKernel* kernel = nullptr;  // null: none of them fits
  int64_t splits = 1;
  double clocks = 0, cost = 0;
};

// The best of these kernels, of which there are at most CudaKernels::max_found.
[[nodiscard]] CudaChoice choose_cuda(std::span<const CudaKernel> kernels, const CudaWork& work,
                                     const fms_plan_options& options, const PlannerFigures& gpu);

}  // namespace flashmoe::plan
