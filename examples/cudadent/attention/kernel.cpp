// The attention library behind the entry of a kernel project: context and plan are made once, a call only runs.
#include <cudadent/kernel.h>
#include <flashmoe/flashmoe.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#ifndef Q_TILE  // cudadent says them: tunables of cudadent.toml; 0: as the planner chooses
#define Q_TILE 0
#define KV_SPLITS 0
#endif

namespace {

int fail(const fms_error& error) {
  std::fprintf(stderr, "flashmoe: %s: %s\n", error.argument, error.message);
  return 1;
}

// One for the process: a context is thread-safe, and a local static is made once whoever comes first.
const fms_context* the_context() {
  static fms_context* const context = [] {
    fms_context* made = nullptr;
    fms_error error;
    if (fms_context_create(nullptr, &made, &error) != FMS_OK) fail(error);
    return made;
  }();
  return context;
}

// Plan and workspace of the last problem, one per thread: no lock, and no run shares its workspace.
struct Prepared {
  int threads = 0;
  fms_attention_plan plan{};
  std::unique_ptr<void, decltype(&std::free)> workspace{nullptr, &std::free};
};

int prepare(const fms_context* context, const fms_attention_problem& problem, int threads, Prepared& prepared) {
  // Problems have no padding: equal bytes are equal problems. A fresh plan is all zeros and equals none.
  const bool same = std::memcmp(&prepared.plan.problem, &problem, sizeof problem) == 0;  // NOLINT(bugprone-*)
  if (same && prepared.threads == threads) return 0;
  fms_plan_options options{};
  options.struct_size = sizeof options;
  options.threads = threads;
  options.q_tile = Q_TILE;
  options.kv_splits = KV_SPLITS;
  fms_attention_plan plan{};
  plan.struct_size = sizeof plan;
  fms_error error;
  if (fms_attention_plan_make(context, &problem, &options, &plan, &error) != FMS_OK) return fail(error);
  const std::size_t bytes = (plan.workspace_bytes + FMS_WORKSPACE_ALIGNMENT - 1) / FMS_WORKSPACE_ALIGNMENT *
                            std::size_t{FMS_WORKSPACE_ALIGNMENT};
  prepared.workspace.reset(bytes > 0 ? std::aligned_alloc(FMS_WORKSPACE_ALIGNMENT, bytes) : nullptr);
  if (bytes > 0 && !prepared.workspace) return 1;
  prepared.plan = plan;
  prepared.threads = threads;
  return 0;
}

fms_strides strides_of(const cudadent_tensor& tensor) {
  return {tensor.stride[0], tensor.stride[1], tensor.stride[2]};
}

}  // namespace

extern "C" int attention(const cudadent_call* call) {
  const cudadent_tensor& q = *cudadent_find_tensor(call, "q");  // (B, H, S, D)
  const cudadent_tensor& k = *cudadent_find_tensor(call, "k");
  const cudadent_tensor& v = *cudadent_find_tensor(call, "v");
  const cudadent_tensor& o = *cudadent_find_tensor(call, "o");
  const cudadent_tensor& lse = *cudadent_find_tensor(call, "lse");  // (B, H, S)
  const fms_context* context = the_context();
  if (!context) return 1;

  fms_attention_problem problem;
  fms_attention_problem_init(&problem, FMS_F16, q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3]);
  problem.q = strides_of(q);
  problem.k = strides_of(k);
  problem.v = strides_of(v);
  problem.o = strides_of(o);
  problem.lse = strides_of(lse);
  problem.features = FMS_LSE;
  if (cudadent_param_or(call, "causal", 0) != 0) problem.window_right = 0;

  thread_local Prepared prepared;
  if (prepare(context, problem, call->threads, prepared) != 0) return 1;

  fms_attention_args args{};
  args.struct_size = sizeof args;
  args.q = q.data;
  args.k = k.data;
  args.v = v.data;
  args.o = o.data;
  args.lse = static_cast<float*>(lse.data);
  fms_error error;
  const fms_status status = fms_attention_run(context, &prepared.plan, &args, prepared.workspace.get(),
                                              prepared.plan.workspace_bytes, nullptr, &error);
  return status == FMS_OK ? 0 : fail(error);
}
