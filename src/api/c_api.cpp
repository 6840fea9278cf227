// The C ABI: check the arguments, plan, dispatch to the kernels. The only place where the library is entered: every
// function that computes or allocates goes through enter(), or computes in the default environment itself.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "api/alias_checks.hpp"
#include "api/entry.hpp"
#include "api/run_checks.hpp"
#include "flashmoe/flashmoe.h"
#include "flashmoe/version.h"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/registry.hpp"
#include "kernels/cpu/team.hpp"
#include "kernels/cuda/launch/device.hpp"
#include "kernels/cuda/launch/images.hpp"
#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "support/raw_enum.hpp"
#include "support/status.hpp"

using flashmoe::DefaultFloatEnvironment;
using flashmoe::fail;
using flashmoe::api::enter;

// What a context holds is fixed when it is made, so that any number of threads may share it.
struct fms_context {
  fms_cpu_isa cpu_isa;
  std::unique_ptr<flashmoe::cuda::Device> gpu{};  // null: the CPU
};

namespace {

fms_status choose_isa(int asked, fms_cpu_isa* chosen, fms_error* error) {
  const fms_cpu_isa best = flashmoe::cpu::best_isa();
  const char* source = "options.cpu_isa";
  if (asked == FMS_ISA_AUTO) {
    const char* name = std::getenv("FLASHMOE_CPU_ISA");
    if (name == nullptr || name[0] == '\0') {
      *chosen = best;
      return FMS_OK;
    }
    source = "FLASHMOE_CPU_ISA";
    asked = flashmoe::cpu::isa_from_name(name);
    if (asked == FMS_ISA_AUTO) {
      return fail(error, FMS_INVALID_ARGUMENT, source, "FLASHMOE_CPU_ISA is \"%s\"; allowed: scalar, avx2, avx512, amx",
                  name);
    }
  }
  if (asked < FMS_ISA_AUTO || asked > FMS_ISA_AMX) {
    return fail(error, FMS_INVALID_ARGUMENT, source, "%s is %d; allowed: FMS_ISA_AUTO (0) to FMS_ISA_AMX (4)", source,
                asked);
  }
  *chosen = static_cast<fms_cpu_isa>(asked);
  if (*chosen > best) {
    return fail(error, FMS_NOT_SUPPORTED, source, "%s asks for %s, but this machine goes up to %s", source,
                flashmoe::cpu::isa_name(*chosen), flashmoe::cpu::isa_name(best));
  }
  return FMS_OK;
}

fms_status make_context(fms_cpu_isa isa, std::unique_ptr<flashmoe::cuda::Device> gpu, fms_context** context,
                        fms_error* error) {
  *context = new (std::nothrow) fms_context{isa, std::move(gpu)};
  if (*context == nullptr) return fail(error, FMS_OUT_OF_MEMORY, "context", "no memory for a context");
  return FMS_OK;
}

fms_status create_context(const fms_context_options* options, fms_context** context, fms_error* error) {
  int asked = FMS_ISA_AUTO;
  if (options != nullptr) {
    if (options->struct_size != sizeof *options) {
      return fail(error, FMS_INVALID_ARGUMENT, "options.struct_size", "options.struct_size is %u; allowed: %zu",
                  options->struct_size, sizeof *options);
    }
    const int kind = flashmoe::raw_value(options->device_kind);
    if (kind == FMS_DEVICE_CUDA) {
      std::unique_ptr<flashmoe::cuda::Device> gpu;
      if (auto s = flashmoe::cuda::Device::open(options->device_index, gpu, error)) return s;
      return make_context(FMS_ISA_AUTO, std::move(gpu), context, error);
    }
    if (kind != FMS_DEVICE_CPU) {
      return fail(error, FMS_INVALID_ARGUMENT, "options.device_kind",
                  "options.device_kind is %d; allowed: FMS_DEVICE_CPU (0), FMS_DEVICE_CUDA (1)", kind);
    }
    if (options->device_index != 0) {
      return fail(error, FMS_INVALID_ARGUMENT, "options.device_index",
                  "options.device_index is %d; allowed for the CPU: 0", options->device_index);
    }
    asked = flashmoe::raw_value(options->cpu_isa);
  }
  fms_cpu_isa isa = FMS_ISA_AUTO;
  if (auto s = choose_isa(asked, &isa, error)) return s;
  return make_context(isa, nullptr, context, error);
}

// Absurd extents wrap around here and are refused by the check.
fms_strides contiguous(int64_t heads, int64_t len, int64_t inner) {
  const auto row = static_cast<uint64_t>(inner);
  const uint64_t head = row * static_cast<uint64_t>(len);
  return {static_cast<int64_t>(head * static_cast<uint64_t>(heads)), static_cast<int64_t>(head), inner};
}

// Without a place to write to there is no room, whatever the capacity says.
size_t print_plan(const fms_attention_plan* plan, char* text, size_t capacity, const char* otherwise,
                  size_t (*print)(const fms_attention_plan&, char*, size_t)) {
  const DefaultFloatEnvironment environment;
  if (text == nullptr) capacity = 0;
  if (plan != nullptr && flashmoe::plan::check_plan(*plan, nullptr) == FMS_OK) return print(*plan, text, capacity);
  if (capacity > 0) std::snprintf(text, capacity, "%s", otherwise);
  return std::strlen(otherwise);
}

// A plan that this context can run; on a GPU its kernel is loaded then.
fms_status check_here(const fms_context& context, const fms_attention_plan& plan, fms_error* error) {
  const fms_device_kind kind = context.gpu != nullptr ? FMS_DEVICE_CUDA : FMS_DEVICE_CPU;
  if (auto s = flashmoe::api::check_plan_here(plan, kind, context.cpu_isa, error)) return s;
  if (kind == FMS_DEVICE_CPU || plan.family == FMS_KERNEL_EMPTY) return FMS_OK;
  return context.gpu->check(plan, error);
}

fms_status run_on_gpu(const fms_context& context, const fms_attention_plan& plan, const fms_attention_args& args,
                      std::byte* workspace, fms_stream stream, fms_error* error) {
  if (plan.family != FMS_KERNEL_EMPTY) return context.gpu->run(plan, args, workspace, stream, error);
  if (args.info != nullptr) *args.info = {FMS_ISA_AUTO, FMS_KERNEL_EMPTY, 0, 1};
  return FMS_OK;
}

fms_status run_on_cpu(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace,
                      fms_stream stream, fms_error* error) {
  if (stream != nullptr) {
    return fail(error, FMS_INVALID_ARGUMENT, "stream", "stream is %p; allowed on the CPU: NULL", stream);
  }
  const flashmoe::cpu::KernelTable& kernels = flashmoe::cpu::kernels(plan.cpu_isa);
  switch (plan.family) {
    case FMS_KERNEL_EMPTY:
      if (args.info != nullptr) *args.info = {plan.cpu_isa, FMS_KERNEL_EMPTY, 0, 1};
      return FMS_OK;
    case FMS_KERNEL_TILE:
      kernels.tile(plan, args, workspace);
      return FMS_OK;
    case FMS_KERNEL_GEMV:
      kernels.gemv(plan, args, workspace);
      return FMS_OK;
    case FMS_KERNEL_AMX:
      kernels.amx(plan, args, workspace);
      return FMS_OK;
    case FMS_KERNEL_CUDA_FORWARD:
      break;
  }
  return fail(error, FMS_INTERNAL_ERROR, "plan.family", "plan.family is %d, which no kernel serves",
              static_cast<int>(plan.family));
}

fms_status merge(const fms_context& context, const fms_merge_problem& problem, const flashmoe::plan::MergeArgs& args,
                 fms_stream stream, fms_error* error) {
  if (auto s = flashmoe::plan::check_merge_problem(problem, error)) return s;
  if (context.gpu == nullptr && stream != nullptr) {
    return fail(error, FMS_INVALID_ARGUMENT, "stream", "stream is %p; allowed on the CPU: NULL", stream);
  }
  if (problem.batch == 0 || problem.heads == 0 || problem.len == 0) return FMS_OK;
  if (auto s = flashmoe::api::check_merge_args(problem, args, error)) return s;
  if (auto s = flashmoe::api::check_merge_aliases(problem, args, error)) return s;
  if (context.gpu != nullptr) return context.gpu->merge(problem, args, stream, error);
  const fms_cpu_isa isa = context.cpu_isa > FMS_ISA_AVX512 ? FMS_ISA_AVX512 : context.cpu_isa;
  flashmoe::cpu::kernels(isa).merge(problem, args);
  return FMS_OK;
}

}  // namespace

extern "C" {

const char* fms_version(void) {
  return FLASHMOE_VERSION_STRING;
}

size_t fms_cuda_images(int32_t* architectures, size_t capacity) {
  size_t count = 0;
  const auto tell = [&](int architecture) {
    if (count < capacity && architectures != nullptr) architectures[count] = architecture;
    ++count;
  };
  // The file beside the library is read when it is first asked for, which may be now.
  static_cast<void>(enter(nullptr, [&] {
    if (flashmoe::cuda::packed_images().empty()) return FMS_OK;
    tell(0);  // PTX
    for (const int architecture : flashmoe::cuda::image_architectures()) tell(architecture);
    return FMS_OK;
  }));
  return count;
}

const char* fms_why_no_cuda_images(void) {
  const char* told = "";
  static_cast<void>(enter(nullptr, [&] {
    if (const auto& none = flashmoe::cuda::why_no_images()) told = none->why.message.c_str();
    return FMS_OK;
  }));
  return told;
}

const char* fms_status_name(fms_status status) {
  switch (status) {
    case FMS_OK:
      return "FMS_OK";
    case FMS_INVALID_ARGUMENT:
      return "FMS_INVALID_ARGUMENT";
    case FMS_NOT_SUPPORTED:
      return "FMS_NOT_SUPPORTED";
    case FMS_OUT_OF_MEMORY:
      return "FMS_OUT_OF_MEMORY";
    case FMS_DEVICE_ERROR:
      return "FMS_DEVICE_ERROR";
    case FMS_INTERNAL_ERROR:
      return "FMS_INTERNAL_ERROR";
  }
  return "unknown fms_status";
}

const char* fms_cpu_isa_name(fms_cpu_isa isa) {
  return flashmoe::cpu::isa_name(isa);
}

fms_status fms_context_create(const fms_context_options* options, fms_context** context, fms_error* error) {
  if (context == nullptr) {
    return fail(error, FMS_INVALID_ARGUMENT, "context", "context is NULL; allowed: where to put the context");
  }
  *context = nullptr;
  return enter(error, [&] { return create_context(options, context, error); });
}

void fms_context_destroy(fms_context* context) {
  delete context;
}

fms_cpu_isa fms_context_cpu_isa(const fms_context* context) {
  return context == nullptr ? FMS_ISA_AUTO : context->cpu_isa;
}

void fms_attention_problem_init(fms_attention_problem* p, fms_dtype dtype, int64_t batch, int64_t q_heads,
                                int64_t kv_heads, int64_t q_len, int64_t kv_len, int64_t head_dim) {
  if (p == nullptr) return;
  const DefaultFloatEnvironment environment;
  std::memset(p, 0, sizeof *p);
  p->struct_size = sizeof *p;
  p->dtype = dtype;
  p->batch = batch;
  p->q_heads = q_heads;
  p->kv_heads = kv_heads;
  p->q_len = q_len;
  p->kv_len = kv_len;
  p->head_dim = p->value_dim = head_dim;
  p->q = p->o = contiguous(q_heads, q_len, head_dim);
  p->k = p->v = contiguous(kv_heads, kv_len, head_dim);
  p->lse = contiguous(q_heads, q_len, 1);
  p->softmax_scale = head_dim > 0 ? 1.0F / std::sqrt(static_cast<float>(head_dim)) : 1.0F;
  p->window_left = p->window_right = -1;
  p->bias_dtype = p->bias2_dtype = dtype;
}

fms_status fms_attention_problem_check(const fms_attention_problem* problem, fms_error* error) {
  if (problem == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "problem", "problem is NULL");
  return enter(error, [&] { return flashmoe::plan::check_problem(*problem, error); });
}

fms_status fms_attention_plan_make(const fms_context* context, const fms_attention_problem* problem,
                                   const fms_plan_options* options, fms_attention_plan* plan, fms_error* error) {
  if (context == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "context", "context is NULL");
  if (problem == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "problem", "problem is NULL");
  if (plan == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "plan", "plan is NULL");
  return enter(error, [&] {
    flashmoe::plan::DeviceCaps caps;
    if (context->gpu != nullptr) {
      caps = context->gpu->caps();
    } else {
      caps.cpu_isa = context->cpu_isa;
      caps.max_threads = flashmoe::cpu::max_team();
    }
    return flashmoe::plan::make_plan(caps, *problem, options, plan, error);
  });
}

size_t fms_plan_explain(const fms_attention_plan* plan, char* text, size_t capacity) {
  return print_plan(plan, text, capacity, "This is not a plan that this library made.\n", flashmoe::plan::explain);
}

size_t fms_plan_json(const fms_attention_plan* plan, char* text, size_t capacity) {
  return print_plan(plan, text, capacity, "null", flashmoe::plan::to_json);
}

fms_status fms_attention_prepare(const fms_context* context, const fms_attention_plan* plan, fms_error* error) {
  if (context == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "context", "context is NULL");
  if (plan == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "plan", "plan is NULL");
  return enter(error, [&, plan = *plan] { return check_here(*context, plan, error); });
}

fms_status fms_attention_image(const fms_context* context, const fms_attention_plan* plan, fms_kernel_image* image,
                               fms_error* error) {
  if (context == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "context", "context is NULL");
  if (plan == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "plan", "plan is NULL");
  if (image == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "image", "image is NULL");
  if (image->struct_size != sizeof *image) {
    return fail(error, FMS_INVALID_ARGUMENT, "image.struct_size", "image.struct_size is %u; allowed: %zu",
                image->struct_size, sizeof *image);
  }
  return enter(error, [&, plan = *plan] {
    if (auto s = check_here(*context, plan, error)) return s;
    *image = {sizeof *image, FMS_IMAGE_NONE, nullptr, 0, ""};
    if (context->gpu != nullptr && plan.family != FMS_KERNEL_EMPTY) context->gpu->describe_image(plan, *image);
    return FMS_OK;
  });
}

fms_status fms_attention_run(const fms_context* context, const fms_attention_plan* plan, const fms_attention_args* args,
                             void* workspace, size_t workspace_bytes, fms_stream stream, fms_error* error) {
  if (context == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "context", "context is NULL");
  if (plan == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "plan", "plan is NULL");
  if (args == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "args", "args is NULL");
  // Copies: what was checked is what runs, whatever happens to the caller's meanwhile.
  return enter(error, [&, plan = *plan, args = *args] {
    if (auto s = check_here(*context, plan, error)) return s;
    if (auto s = flashmoe::api::check_args(plan, args, error)) return s;
    if (auto s = flashmoe::api::check_workspace(plan, workspace, workspace_bytes, error)) return s;
    if (auto s = flashmoe::api::check_aliases(plan, args, workspace, error)) return s;
    auto* bytes = static_cast<std::byte*>(workspace);
    return context->gpu != nullptr ? run_on_gpu(*context, plan, args, bytes, stream, error)
                                   : run_on_cpu(plan, args, bytes, stream, error);
  });
}

void fms_merge_problem_init(fms_merge_problem* p, fms_dtype dtype, int64_t batch, int64_t heads, int64_t len,
                            int64_t head_dim) {
  if (p == nullptr) return;
  std::memset(p, 0, sizeof *p);
  p->struct_size = sizeof *p;
  p->dtype = dtype;
  p->batch = batch;
  p->heads = heads;
  p->len = len;
  p->head_dim = head_dim;
  p->o_a = p->o_b = p->o = contiguous(heads, len, head_dim);
  p->lse_a = p->lse_b = p->lse = contiguous(heads, len, 1);
}

fms_status fms_merge_states(const fms_context* context, const fms_merge_problem* problem, const void* o_a,
                            const float* lse_a, const void* o_b, const float* lse_b, void* o, float* lse,
                            fms_stream stream, fms_error* error) {
  if (context == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "context", "context is NULL");
  if (problem == nullptr) return fail(error, FMS_INVALID_ARGUMENT, "problem", "problem is NULL");
  // A copy: what was checked is what runs.
  return enter(error, [&, problem = *problem] {
    return merge(*context, problem, {o_a, o_b, lse_a, lse_b, o, lse}, stream, error);
  });
}

}  // extern "C"
