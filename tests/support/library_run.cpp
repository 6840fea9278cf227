#include "support/library_run.hpp"

namespace flashmoe::testing {

Context make_context(fms_cpu_isa isa) {
  fms_context_options options{};
  options.struct_size = sizeof options;
  options.device_kind = FMS_DEVICE_CPU;
  options.cpu_isa = isa;
  fms_context* context = nullptr;
  return Context(fms_context_create(&options, &context, nullptr) == FMS_OK ? context : nullptr);
}

std::vector<fms_cpu_isa> available_isas() {
  std::vector<fms_cpu_isa> isas;
  for (const fms_cpu_isa isa : {FMS_ISA_SCALAR, FMS_ISA_AVX2, FMS_ISA_AVX512, FMS_ISA_AMX}) {
    if (make_context(isa) != nullptr) {
      isas.push_back(isa);
    }
  }
  return isas;
}

RunResult plan_and_run(const fms_context* context, AttentionCase& one, const fms_plan_options* options) {
  RunResult result;
  result.status = fms_attention_plan_make(context, &one.problem(), options, &result.plan, &result.error);
  if (result.status != FMS_OK) {
    return result;
  }
  constexpr uint8_t kPoison = 0xff;  // NaN: a kernel that trusts fresh workspace to be zero shows it
  const FencedBuffer workspace(result.plan.workspace_bytes, Fence::kAfter, kPoison, FMS_WORKSPACE_ALIGNMENT);
  fms_attention_args args = one.args();
  args.info = &result.info;
  void* memory = workspace.bytes() == 0 ? nullptr : workspace.data();
  result.status = fms_attention_run(context, &result.plan, &args, memory, workspace.bytes(), nullptr, &result.error);
  return result;
}

fms_plan_options plan_options(int32_t threads, int32_t kv_splits, int32_t q_tile) {
  fms_plan_options options{};
  options.struct_size = sizeof options;
  options.threads = threads;
  options.kv_splits = kv_splits;
  options.q_tile = q_tile;
  return options;
}

std::string to_string(const fms_error& error) {
  return std::string(fms_status_name(error.code)) + " [" + error.argument + "] " + error.message;
}

}  // namespace flashmoe::testing
