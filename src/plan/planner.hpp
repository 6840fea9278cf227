// Problem + device -> plan. Host only, no allocation, no data: the same inputs always give the same plan.
#pragma once

#include <atomic>
#include <cstdint>

#include "devices/tuning.hpp"
#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

// A CUDA kernel that could run a problem.
struct CudaKernel {
  int32_t instance;  // what the launcher knows it by
  int32_t head_dim;  // it is compiled for
  int32_t q_tile, kv_tile, threads;
  int32_t ctas_per_sm;  // of the compiled code on this device; 0: does not fit
  int64_t split_bytes;  // workspace of one split of one row tile
  bool takes_list = true;
  int32_t value_dim = 0;  // it is compiled for; 0: head_dim
};

// The kernels of a device; the planner asks for those that fit a problem.
class CudaKernels {
 public:
  static constexpr int max_found = 4;
  CudaKernels() = default;
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;
  virtual ~CudaKernels() = default;
  // Never another device's, of this process, before or after: plans are kept by it.
  const uint64_t id = next_id_.fetch_add(1, std::memory_order_relaxed);
  [[nodiscard]] virtual fms_status find(const fms_attention_problem& problem, CudaKernel (&found)[max_found],
                                        int* count, fms_error* error) const = 0;

 private:
  static inline std::atomic<uint64_t> next_id_{1};
};

inline constexpr int32_t most_threads = 4096;
inline constexpr int32_t most_kv_splits = 1024;
// A forced plan may ask for absurd workspaces; this is more than any machine should be asked for by mistake.
inline constexpr int64_t max_workspace_bytes = int64_t{1} << 46;

// What the planner knows of the device.
struct DeviceCaps {
  fms_device_kind kind = FMS_DEVICE_CPU;
  fms_cpu_isa cpu_isa = FMS_ISA_SCALAR;
  int32_t max_threads = 1;
  PlannerFigures gpu{};
  const CudaKernels* cuda_kernels = nullptr;
};

// `options` may be null. Checks the problem.
[[nodiscard]] fms_status make_plan(const DeviceCaps& caps, const fms_attention_problem& problem,
                                   const fms_plan_options* options, fms_attention_plan* plan, fms_error* error);

// Whether the bytes are a plan that the planner makes of the problem inside: every field is looked at again, and
// nothing is believed before. A GPU's kernel is what the plan says it is; its device compares the two (holds_kernel).
[[nodiscard]] fms_status check_plan(const fms_attention_plan& plan, fms_error* error);
// Whether a GPU's checked plan is one for this kernel.
[[nodiscard]] fms_status holds_kernel(const fms_attention_plan& plan, const CudaKernel& kernel, fms_error* error);

// Unequal batches: the lengths are known to the device alone, where each CTA finds its share of them in a list
// (kernels/cuda/attention/work_list.cuh). The plan says how long the list may become; kv_splits is 0.
struct WorkListSize {
  int64_t items;  // for each kv head: CTAs. Room for every tile, and for more where long sequences are split
  int64_t slots;  // for each kv head: states of splits
};
[[nodiscard]] bool takes_list(const fms_attention_problem& problem);
[[nodiscard]] WorkListSize work_list_size(const fms_attention_problem& problem, int32_t q_tile, int32_t kv_tile,
                                          int32_t sm_count);

// The order in which the CTAs of a plan without a list begin: the longest tiles of all heads first, so that the last
// ones are short and end together. Otherwise head after head, whose tiles then find its keys and values in L2: where
// all tiles see as many keys, and where L2 would not hold those of all heads.
[[nodiscard]] bool is_longest_first(const fms_attention_plan& plan, double l2_resident_bytes);

// What splits keep in the workspace: states, and behind them counters.
struct SplitStates {
  int64_t states, counters;
};
// Of a plan whose kernel and grid are known.
[[nodiscard]] SplitStates split_states(const fms_attention_plan& plan);
[[nodiscard]] inline uint64_t cuda_workspace_bytes(const SplitStates& kept, int64_t split_bytes) {
  return static_cast<uint64_t>(kept.states * split_bytes) + static_cast<uint64_t>(kept.counters) * sizeof(uint32_t);
}

// The steps of make_plan, for check_plan; problems and options are checked before them.
// A plan of nothing.
void begin_plan(const DeviceCaps& caps, const fms_attention_problem& problem, fms_attention_plan& plan);
// Everything but the fingerprint.
[[nodiscard]] fms_status choose(const DeviceCaps& caps, const fms_attention_problem& problem,
                                const fms_plan_options& options, fms_attention_plan& plan, fms_error* error);
// On a GPU: the kernel and its splits, made.workspace_bytes included.
[[nodiscard]] fms_status plan_cuda(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan,
                                   fms_error* error);
// What follows from them; splits 0: with a list.
[[nodiscard]] fms_status finish_cuda_plan(const CudaKernel& kernel, int64_t splits, int32_t sm_count,
                                          fms_attention_plan& plan, fms_error* error);

// Over everything behind the fingerprint field.
uint64_t fingerprint_of(const fms_attention_plan& plan);

// Like snprintf: the length without the NUL.
std::size_t explain(const fms_attention_plan& plan, char* text, std::size_t capacity);
std::size_t to_json(const fms_attention_plan& plan, char* text, std::size_t capacity);

}  // namespace flashmoe::plan
