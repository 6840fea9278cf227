// A problem in the memory of one of several devices, run by a library context of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/gpu_run.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {

inline Context library_context(int ordinal) {
  fms_context_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.device_kind = FMS_DEVICE_CUDA;
  wanted.device_index = ordinal;
  fms_context* made = nullptr;
  fms_error error{};
  if (fms_context_create(&wanted, &made, &error) != FMS_OK) throw std::runtime_error(to_string(error));
  return Context(made);
}

class DeviceRun {
 public:
  DeviceRun(std::shared_ptr<runtime::Context> device, int ordinal, const fms_attention_problem& problem,
            uint64_t seed = 1)
      : device_(std::move(device)),
        context_(library_context(ordinal)),
        one_(normal_case(problem, seed)),
        oracle_(one_),
        there_(device_, one_) {}

  // Planning, with two splits, so that run clears counters too.
  void plan() {
    const fms_plan_options options = plan_options(0, 2, 16);
    fms_error error{};
    if (fms_attention_plan_make(context_.get(), &one_.problem(), &options, &plan_, &error) != FMS_OK)
      throw std::runtime_error(to_string(error));
  }
  // Memory is allocated here and not by run, which may be captured.
  void allocate() {
    workspace_ = must(runtime::Buffer::create(device_, plan_.workspace_bytes));
    must(workspace_->write(std::vector<std::byte>(workspace_->bytes(), std::byte{0xff})));
    spoil();
  }
  void spoil() {
    one_.reset_outputs();
    there_.copy_outputs_to_device(one_);
  }
  fms_status prepare(fms_error* error) const { return fms_attention_prepare(context_.get(), &plan_, error); }
  fms_status run(fms_stream stream, fms_error* error) const {
    const fms_attention_args args = there_.args();
    return fms_attention_run(context_.get(), &plan_, &args, reinterpret_cast<void*>(workspace_->address()),
                             plan_.workspace_bytes, stream, error);
  }
  void destroy_context() { context_.reset(); }
  // Of what is in the device's memory now; empty: it is right.
  std::string complaint() {
    must(device_->synchronize());
    there_.copy_back(one_);
    return judge(one_, oracle_).complaint;
  }
  [[nodiscard]] const fms_attention_plan& made_plan() const { return plan_; }

 private:
  std::shared_ptr<runtime::Context> device_;
  Context context_;
  AttentionCase one_;
  OracleAnswer oracle_;
  DeviceCase there_;
  fms_attention_plan plan_{};
  std::optional<runtime::Buffer> workspace_{};
};

}  // namespace flashmoe::testing
