#include "kernels/cuda/launch/device.hpp"

#include <cstring>

#include "kernels/cuda/launch/forward_params.hpp"
#include "kernels/cuda/launch/images.hpp"
#include "kernels/cuda/launch/instances.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::cuda {

using runtime::cuda::DeviceAttribute;
using runtime::cuda::KernelHandle;

fms_status Device::open(int ordinal, std::unique_ptr<Device>& device, fms_error* error) {
  if (images().empty()) {
    return fail(
        error, FMS_NOT_SUPPORTED, "options.device_kind",
        "this build has no CUDA kernels: it was made on a machine without a CUDA toolkit; allowed: FMS_DEVICE_CPU");
  }
  auto driver = runtime::Driver::open(runtime::system_driver_library());
  if (!driver) return fail(error, FMS_DEVICE_ERROR, "options.device_kind", "%s", driver.error().to_string().c_str());
  auto made = std::make_unique<Device>();
  made->driver_ = *driver;
  const runtime::cuda::Functions& call = made->driver_->call();
  int count = 0;
  if (auto s = made->failed(call.device_count(&count), "cuDeviceGetCount", error)) return s;
  if (ordinal < 0 || ordinal >= count) {
    return fail(error, FMS_INVALID_ARGUMENT, "options.device_index", "options.device_index is %d; allowed: 0 to %d",
                ordinal, count - 1);
  }
  if (auto s = made->failed(call.device_get(&made->handle_, ordinal), "cuDeviceGet", error)) return s;
  int major = 0;
  int minor = 0;
  const struct {
    int* value;
    DeviceAttribute attribute;
  } asked[] = {{&made->sm_count_, DeviceAttribute::multiprocessor_count},
               {&major, DeviceAttribute::compute_capability_major},
               {&minor, DeviceAttribute::compute_capability_minor}};
  for (const auto& one : asked) {
    const auto code = call.device_attribute(one.value, one.attribute, made->handle_);
    if (auto s = made->failed(code, "cuDeviceGetAttribute", error)) return s;
  }
  made->architecture_ = 10 * major + minor;
  if (made->architecture_ < 80) {
    return fail(error, FMS_NOT_SUPPORTED, "options.device_index",
                "options.device_index is %d, a GPU of compute capability %d.%d; allowed: 8.0 or newer", ordinal, major,
                minor);
  }
  device = std::move(made);
  return FMS_OK;
}

plan::DeviceCaps Device::caps() const {
  plan::DeviceCaps caps;
  caps.kind = FMS_DEVICE_CUDA;
  caps.sm_count = sm_count_;
  caps.cuda_instances = instances();
  return caps;
}

fms_status Device::failed(runtime::cuda::Code code, const char* what, fms_error* error) const {
  if (code == runtime::cuda::success) return FMS_OK;
  const auto said = driver_->check(code, what);
  const fms_status status = code == runtime::cuda::out_of_memory ? FMS_OUT_OF_MEMORY : FMS_DEVICE_ERROR;
  return fail(error, status, "", "%s", said.error().message.c_str());
}

// The cubin of the device's own architecture, else the PTX, which every driver can compile. Kernels of a library belong
// to no context: the driver makes each one ready in the context that launches it.
fms_status Device::load(std::size_t instance, KernelHandle& kernel, fms_error* error) const {
  const std::lock_guard lock(loading_);
  kernel = kernels_[instance].load(std::memory_order_acquire);
  if (kernel != nullptr) return FMS_OK;
  const plan::CudaInstance& wanted = instances()[instance];
  const runtime::cuda::Functions& call = driver_->call();
  runtime::cuda::LibraryHandle library = nullptr;
  runtime::cuda::Code code = runtime::cuda::no_binary_for_gpu;
  for (const int architecture : {architecture_, 0}) {
    for (const Image& image : images()) {
      if (code == runtime::cuda::success || image.architecture != architecture ||
          std::strcmp(image.kernel, wanted.name) != 0) {
        continue;
      }
      code = call.library_load(&library, image.begin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    }
  }
  if (auto s = failed(code, "cuLibraryLoadData", error)) return s;
  if (auto s = failed(call.library_kernel(&kernel, library, wanted.name), "cuLibraryGetKernel", error)) return s;
  if (wanted.shared_bytes > 48 << 10) {
    const auto allowed = call.kernel_set_attribute(runtime::cuda::FunctionAttribute::max_dynamic_shared_bytes,
                                                   wanted.shared_bytes, kernel, handle_);
    if (auto s = failed(allowed, "cuKernelSetAttribute", error)) return s;
  }
  kernels_[instance].store(kernel, std::memory_order_release);
  return FMS_OK;
}

fms_status Device::run(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace,
                       fms_stream stream, fms_error* error) const {
  const auto instance = static_cast<std::size_t>(plan.instance);
  if (instance >= instances().size()) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.instance",
                "plan.instance is %d, but this library has %zu kernels: the plan comes from another build",
                plan.instance, instances().size());
  }
  KernelHandle kernel = kernels_[instance].load(std::memory_order_acquire);
  if (kernel == nullptr) {
    if (auto s = load(instance, kernel, error)) return s;
  }
  const plan::CudaInstance& chosen = instances()[instance];
  ForwardParams params = forward_params(plan, chosen, args, workspace);
  const fms_attention_problem& p = plan.problem;
  const auto tiles = static_cast<unsigned>((plan::group_size(p) * p.q_len + plan.q_tile - 1) / plan.q_tile);
  const auto heads = static_cast<unsigned>(p.batch * p.kv_heads);
  const auto stream_handle = static_cast<runtime::cuda::StreamHandle>(stream);
  const runtime::cuda::Functions& call = driver_->call();
  if (plan.kv_splits > 1) {
    const auto counters = reinterpret_cast<runtime::cuda::DeviceAddress>(params.arrived);
    const auto cleared = call.fill_words_async(counters, 0, std::size_t{tiles} * heads, stream_handle);
    if (auto s = failed(cleared, "cuMemsetD32Async", error)) return s;
  }
  void* arguments[] = {&params};
  const auto code = call.launch(reinterpret_cast<runtime::cuda::FunctionHandle>(kernel), tiles, heads,
                                static_cast<unsigned>(plan.kv_splits), static_cast<unsigned>(plan.threads), 1, 1,
                                static_cast<unsigned>(chosen.shared_bytes), stream_handle, arguments, nullptr);
  if (auto s = failed(code, "cuLaunchKernel", error)) return s;
  if (args.info != nullptr) *args.info = {FMS_ISA_AUTO, plan.family, plan.threads, plan.kv_splits};
  return FMS_OK;
}

}  // namespace flashmoe::cuda
