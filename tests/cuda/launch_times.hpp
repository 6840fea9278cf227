// How long the library takes from the call of fms_attention_run to the driver's launch, with a driver that swallows it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "counting_driver.hpp"
#include "support/library_run.hpp"

namespace flashmoe::testing {

// A context on the counting driver. Null: the library says why.
inline Context counting_context(fms_error& error) {
  setenv("FLASHMOE_DRIVER", counting_driver_path().c_str(), 1);
  fms_context_options options{};
  options.struct_size = sizeof options;
  options.device_kind = FMS_DEVICE_CUDA;
  fms_context* context = nullptr;
  (void)fms_context_create(&options, &context, &error);
  return Context(context);
}

// A problem with pointers that nobody looks at, planned for the counting driver.
struct Call {
  std::string name;
  fms_attention_problem problem{};
  fms_plan_options options{};
  fms_attention_plan plan{};
  fms_attention_args args{};
  fms_error error{};

  Call(std::string name_of_call, const fms_context* context, const fms_attention_problem& asked, int kv_splits = 0)
      : name(std::move(name_of_call)), problem(asked), options(plan_options(0, kv_splits, 0)) {
    const auto somewhere = [](std::uintptr_t gigabytes) { return reinterpret_cast<void*>(gigabytes << 30); };
    args.struct_size = sizeof args;
    args.q = somewhere(1);
    args.k = somewhere(2);
    args.v = somewhere(3);
    args.o = somewhere(4);
    args.lse = static_cast<float*>(somewhere(5));
    args.bias = somewhere(6);
    args.sinks = static_cast<float*>(somewhere(7));
    args.block_table = static_cast<std::int32_t*>(somewhere(8));
    args.kv_lengths = static_cast<std::int32_t*>(somewhere(10));
    (void)fms_attention_plan_make(context, &problem, &options, &plan, &error);
  }
  [[nodiscard]] fms_status run(const fms_context* context) const {
    void* workspace = plan.workspace_bytes == 0 ? nullptr : reinterpret_cast<void*>(std::uintptr_t{9} << 30);
    return fms_attention_run(context, &plan, &args, workspace, plan.workspace_bytes, nullptr, nullptr);
  }
};

inline std::int64_t nanoseconds_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sorted nanoseconds of `count` calls, two readings of the clock included. `plan_too`: plans anew before each run, as a
// caller without a plan at hand does.
inline std::vector<std::int64_t> launch_times(const fms_context* context, Call& call, int count, bool plan_too) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(count));
  for (std::int64_t& time : times) {
    const std::int64_t before = nanoseconds_now();
    if (plan_too) (void)fms_attention_plan_make(context, &call.problem, &call.options, &call.plan, nullptr);
    const fms_status status = call.run(context);
    time = status == FMS_OK ? counting_driver_launch_time() - before : -1;
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace flashmoe::testing
