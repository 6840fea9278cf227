// Our library behind the peers' interface, so that one harness drives all of them: the same data, driver and judge.
// FLASHMOE_PEER_PLAN forces what the planner would choose: "heads=N", its choice for so many heads, of which those that
// run stand for all; "q_tile=Q,kv_splits=K", exactly this.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "flashmoe/flashmoe.h"
#include "peer.h"

namespace {

std::string& complaint() {
  static thread_local std::string text;
  return text;
}

const char* failed(const fms_error& error) {
  complaint() = std::string(fms_status_name(error.code)) + ": " + error.argument + " " + error.message;
  return complaint().c_str();
}

// Kept for the process: the kernels are loaded once, as in any program that uses the library.
const fms_context* context(fms_error& error) {
  static fms_context* const created = [&error] {
    fms_context_options options{.struct_size = sizeof(fms_context_options),
                                .device_kind = FMS_DEVICE_CUDA,
                                .device_index = 0,
                                .cpu_isa = FMS_ISA_AUTO};
    fms_context* made = nullptr;
    return fms_context_create(&options, &made, &error) == FMS_OK ? made : nullptr;
  }();
  return created;
}

// (batch, len, heads, head_dim), dense.
fms_strides token_major(int64_t heads, int64_t length, int64_t head_dim) {
  return {.batch = length * heads * head_dim, .head = head_dim, .seq = heads * head_dim};
}

fms_attention_problem describe(const PeerProblem& p) {
  fms_attention_problem problem{};
  fms_attention_problem_init(&problem, FMS_F16, p.batch, p.heads_q, p.heads_kv, p.len_q, p.len_kv, p.head_dim);
  problem.q = problem.o = token_major(p.heads_q, p.len_q, p.head_dim);
  problem.k = problem.v = token_major(p.heads_kv, p.len_kv, p.head_dim);
  problem.softmax_scale = p.scale;
  problem.window_right = p.causal != 0 ? 0 : -1;
  return problem;
}

// Null, or what is wrong.
const char* make_plan(const fms_context* device, const PeerProblem& p, fms_attention_plan& plan) {
  fms_error error{};
  fms_plan_options options{};
  options.struct_size = sizeof options;
  fms_attention_plan of_all{};
  const char* const text = std::getenv("FLASHMOE_PEER_PLAN");
  if (text != nullptr && *text != '\0' &&
      std::sscanf(text, "q_tile=%d,kv_splits=%d", &options.q_tile, &options.kv_splits) != 2) {
    PeerProblem all = p;
    if (std::sscanf(text, "heads=%u", &all.heads_q) != 1)
      return "FLASHMOE_PEER_PLAN is neither heads=N nor q_tile=Q,kv_splits=K";
    all.heads_kv = all.heads_q / (p.heads_q / p.heads_kv);
    const fms_attention_problem problem = describe(all);
    if (fms_attention_plan_make(device, &problem, nullptr, &of_all, &error) != FMS_OK) return failed(error);
    options.q_tile = of_all.q_tile;
    options.kv_splits = of_all.kv_splits;
  }
  const fms_attention_problem problem = describe(p);
  if (fms_attention_plan_make(device, &problem, &options, &plan, &error) != FMS_OK) return failed(error);
  if (of_all.q_tile != 0 && of_all.instance != plan.instance)
    return "the kernel of all heads cannot be forced on these";
  return nullptr;
}

}  // namespace

extern "C" FMS_API const char* peer_name(void) {
  return "FlashMoE-Science";
}

extern "C" FMS_API const char* peer_run(const PeerProblem* p) {
  fms_error error{};
  const fms_context* device = context(error);
  if (device == nullptr) return failed(error);
  fms_attention_plan plan{};
  if (const char* const wrong = make_plan(device, *p, plan); wrong != nullptr) return wrong;
  if (plan.workspace_bytes > p->workspace_bytes) return "the workspace is too small";
  fms_attention_args args{};
  args.struct_size = sizeof args;
  args.q = p->q;
  args.k = p->k;
  args.v = p->v;
  args.o = p->o;
  void* workspace = plan.workspace_bytes == 0 ? nullptr : p->workspace;
  if (fms_attention_run(device, &plan, &args, workspace, plan.workspace_bytes, nullptr, &error) != FMS_OK)
    return failed(error);
  return nullptr;
}
