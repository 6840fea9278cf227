// The library on a GPU, here the virtual one with every check on: problems of the test suite are copied to device
// memory, run through the C ABI and copied back.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device.hpp"
#include "support/library_run.hpp"

namespace flashmoe::testing {

// A test that cannot go on throws.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}

// Plan, workspace of NaN, run on the current context's GPU, results back in `one`.
RunResult run_on_gpu(const std::shared_ptr<runtime::Context>& device, const fms_context* context, AttentionCase& one,
                     const fms_plan_options* options = nullptr);

struct GpuOptions {
  const char* device = "l4";
  const char* checks = "all";  // "none" for speed
};

class Gpu {
 public:
  // The virtual GPU reads its settings when it is loaded, once in a process: make one Gpu per process. Throws when
  // there is none: a test that cannot run has failed.
  explicit Gpu(const GpuOptions& options = {});
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  fms_context* context() const { return context_.get(); }
  const runtime::Driver& driver() const { return *driver_; }
  std::shared_ptr<runtime::Context> device() const { return device_; }

  RunResult run(AttentionCase& one, const fms_plan_options* options = nullptr) const {
    return run_on_gpu(device_, context_.get(), one, options);
  }

  // What the virtual GPU reported since the last call: one JSON object per launch.
  std::vector<std::string> reports() const;
  // Of them, those with findings.
  std::vector<std::string> findings() const;

 private:
  std::string report_path_;
  mutable long report_read_ = 0;
  std::shared_ptr<const runtime::Driver> driver_;
  std::shared_ptr<runtime::Context> device_;
  std::unique_ptr<runtime::Context::Current> current_;
  Context context_;
};

// Of one of the reports; 0: a kernel that does nothing of a kind has no line for it.
double metric(const nlohmann::json& report, const std::string& name);

// A problem's buffers in device memory, at the same distance from a multiple of 16 bytes as in the host's.
class DeviceCase {
 public:
  DeviceCase(const Gpu& gpu, const AttentionCase& one) : DeviceCase(gpu.device(), one) {}
  DeviceCase(const std::shared_ptr<runtime::Context>& device, const AttentionCase& one);
  fms_attention_args args() const { return args_; }
  void copy_back(AttentionCase& one) const;
  void copy_outputs_to_device(const AttentionCase& one);

 private:
  struct Piece {
    runtime::Buffer buffer;
    std::size_t begin;
  };
  std::vector<Piece> pieces_;
  fms_attention_args args_;
};

}  // namespace flashmoe::testing
