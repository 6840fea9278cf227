// A GPU as the library uses it: the caller's context and stream, kernels loaded once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "devices/tuning.hpp"
#include "flashmoe/flashmoe.h"
#include "kernels/cuda/launch/instances.hpp"
#include "kernels/cuda/launch/loader.hpp"
#include "plan/merge_args.hpp"
#include "plan/planner.hpp"
#include "runtime/driver.hpp"

namespace flashmoe::cuda {

class Device final : public plan::CudaKernels {
 public:
  // The driver is FLASHMOE_DRIVER (a path), else the system's.
  [[nodiscard]] static fms_status open(int ordinal, std::unique_ptr<Device>& device, fms_error* error);

  [[nodiscard]] plan::DeviceCaps caps() const;
  // Kernels of every tile class there is for the problem; where the list has none, what NVRTC would compile. Loads
  // listed ones at the first plan of a kind, to ask how many CTAs an SM holds. A class that does not load is left out;
  // it is an error when none does, and is tried again by the next plan.
  [[nodiscard]] fms_status find(const fms_attention_problem& problem, plan::CudaKernel (&found)[max_found], int* count,
                                fms_error* error) const override;
  // Whether a plan that is not empty, and that the planner has checked, is one for this device: what only the device
  // knows is whether its numbers are those of the kernel. Only the first check of a kernel loads it.
  [[nodiscard]] fms_status check(const fms_attention_plan& plan, fms_error* error) const;
  // What the driver was handed for a checked plan's kernel.
  void describe_image(const fms_attention_plan& plan, fms_kernel_image& image) const;
  // Queues a checked plan's kernel on the stream. Nothing is allocated and nothing is asked of the driver but the
  // launch; in a process with several GPUs also which one is current.
  [[nodiscard]] fms_status run(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace,
                               fms_stream stream, fms_error* error) const;
  // Queues the merge of a checked problem that is not empty; the first one on this GPU loads its kernel.
  [[nodiscard]] fms_status merge(const fms_merge_problem& problem, const plan::MergeArgs& args, fms_stream stream,
                                 fms_error* error) const;

 private:
  struct Loaded {
    std::atomic<runtime::cuda::KernelHandle> kernel{nullptr};
    // Written before `kernel`.
    int ctas_per_sm = 0;  // that plans count with
    LoadedImage image{};
  };
  // Of all contexts of the process on one device, until it ends.
  struct Kernels {
    std::mutex loading{};
    std::array<Loaded, instance_codes> all{};
    Loaded merge{};
  };
  [[nodiscard]] static Kernels& kernels_of(const runtime::Driver& driver, int ordinal);

  [[nodiscard]] fms_status load(int code, fms_error* error) const;
  // With the loader's function of its kind, unless another thread has done it meanwhile.
  template <class Load>
  [[nodiscard]] fms_status load_once(Loaded& loaded, const Load& load) const;
  void add(const InstanceAxes& axes, int ctas_per_sm, plan::CudaKernel (&found)[max_found], int* count) const;
  [[nodiscard]] fms_status failed(runtime::cuda::Code code, const char* what, fms_error* error) const;

  std::shared_ptr<const runtime::Driver> driver_{};
  runtime::cuda::DeviceHandle handle_ = 0;
  int architecture_ = 0, shared_bytes_per_cta_ = 0, device_count_ = 1;
  PlannerFigures figures_{};
  std::unique_ptr<Loader> loader_{};
  Kernels* kernels_ = nullptr;
};

}  // namespace flashmoe::cuda
