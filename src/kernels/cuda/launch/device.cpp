#include "kernels/cuda/launch/device.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/jit/nvrtc.hpp"
#include "kernels/cuda/launch/forward_params.hpp"
#include "kernels/cuda/launch/images.hpp"
#include "kernels/cuda/launch/merge_launch.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::cuda {

using runtime::cuda::DeviceAttribute;
using runtime::cuda::KernelHandle;

namespace {

// Whether an instance is for problems whose values have a size of their own, or for those whose values have not, and is
// large enough.
bool holds_sizes(const InstanceAxes& one, const fms_attention_problem& p) {
  return (one.value_dim != 0) == (p.value_dim != p.head_dim) && one.dim >= p.head_dim && one.values() >= p.value_dim;
}

// Of the instances of this tile class that come with the library the smallest that holds the problem's head sizes.
std::optional<InstanceAxes> find_shipped(const InstanceAxes& wanted, const fms_attention_problem& problem) {
  std::optional<InstanceAxes> found;
  if (packed_images().empty()) return found;
  for (const InstanceAxes& one : listed_instances()) {
    InstanceAxes same = wanted;
    same.dim = one.dim;
    same.value_dim = one.value_dim;
    if (one == same && holds_sizes(one, problem) && (!found || one.dim + one.values() < found->dim + found->values()))
      found = one;
  }
  return found;
}

// What the problem asks of an instance; head sizes and tile class are open.
InstanceAxes axes_for(const fms_attention_problem& problem) {
  InstanceAxes axes;
  axes.dtype = problem.dtype;
  axes.is_paged = plan::has(problem, FMS_PAGED_KV);
  // Masks come before the scale in plain kernels; a scale of 0 would make NaN of them.
  axes.is_modified = plan::has(problem, FMS_BIAS) || plan::has(problem, FMS_BIAS2) || problem.softcap > 0.0F ||
                     problem.softmax_scale == 0.0F;
  return axes;
}

plan::CudaKernel kernel_of(const InstanceAxes& axes, int ctas_per_sm) {
  const Tile tile = axes.tile();
  return {code_of(axes),
          axes.dim,
          tile.rows(),
          tile.keys,
          tile.threads(),
          ctas_per_sm,
          int64_t{axes.tile_state_floats()} * int64_t{sizeof(float)},
          takes_list(axes.tile_class),
          axes.values()};
}

// Without images every kernel is compiled when it is first wanted.
fms_status check_kernels_can_be_had(fms_error* error) {
  const std::optional<NoImages>& none = why_no_images();
  if (!none || (!none->is_refused && Nvrtc::open())) return FMS_OK;
  return fail(error, FMS_NOT_SUPPORTED, "options.device_kind", "%s", none->why.to_string().c_str());
}

}  // namespace

Device::Kernels& Device::kernels_of(const runtime::Driver& driver, int ordinal) {
  static std::mutex mutex;
  // Never destroyed: contexts may outlive what is static.
  static auto& all = *new std::map<std::pair<std::string, int>, Kernels>;
  const std::lock_guard lock(mutex);
  return all[{driver.library(), ordinal}];
}

fms_status Device::open(int ordinal, std::unique_ptr<Device>& device, fms_error* error) {
  if (auto s = check_kernels_can_be_had(error)) return s;
  auto driver = runtime::Driver::open(runtime::system_driver_library());
  if (!driver) return fail(error, FMS_DEVICE_ERROR, "options.device_kind", "%s", driver.error().to_string().c_str());
  auto made = std::make_unique<Device>();
  made->driver_ = *driver;
  const runtime::cuda::Functions& call = made->driver_->call();
  int count = 0;
  if (auto s = made->failed(call.device_count(&count), "cuDeviceGetCount", error)) return s;
  if (count < 1) {
    return fail(
        error, FMS_DEVICE_ERROR, "options.device_index",
        "the driver sees no GPU (fix: see that nvidia-smi lists it, that CUDA_VISIBLE_DEVICES does not hide it, "
        "and that the container may use it: docker run --gpus all)");
  }
  if (ordinal < 0 || ordinal >= count) {
    return fail(error, FMS_INVALID_ARGUMENT, "options.device_index", "options.device_index is %d; allowed: 0 to %d",
                ordinal, count - 1);
  }
  made->device_count_ = count;
  if (auto s = made->failed(call.device_get(&made->handle_, ordinal), "cuDeviceGet", error)) return s;
  DriverAnswers says;
  const struct {
    int* value;
    DeviceAttribute attribute;
  } asked[] = {{&says.sm_count, DeviceAttribute::multiprocessor_count},
               {&made->shared_bytes_per_cta_, DeviceAttribute::max_shared_bytes_per_block_optin},
               {&says.compute_major, DeviceAttribute::compute_capability_major},
               {&says.compute_minor, DeviceAttribute::compute_capability_minor}};
  for (const auto& one : asked) {
    const auto code = call.device_attribute(one.value, one.attribute, made->handle_);
    if (auto s = made->failed(code, "cuDeviceGetAttribute", error)) return s;
  }
  // Beyond any GPU there will be: it is the driver that is wrong.
  if (says.sm_count < 1 || says.sm_count > 1 << 16 || made->shared_bytes_per_cta_ < 1 ||
      made->shared_bytes_per_cta_ > 1 << 24 || says.compute_major < 1 || says.compute_major > 99 ||
      says.compute_minor < 0 || says.compute_minor > 9) {
    return fail(error, FMS_DEVICE_ERROR, "options.device_index",
                "the driver tells of %d SMs, %d bytes of shared memory for a CTA and compute capability %d.%d (fix: "
                "reinstall NVIDIA's driver; cudadent doctor and nvidia-smi show what it says)",
                says.sm_count, made->shared_bytes_per_cta_, says.compute_major, says.compute_minor);
  }
  const int major = says.compute_major, minor = says.compute_minor;
  made->architecture_ = 10 * major + minor;
  if (made->architecture_ < 80) {
    return fail(error, FMS_NOT_SUPPORTED, "options.device_index",
                "options.device_index is %d, a GPU of compute capability %d.%d; allowed: 8.0 or newer", ordinal, major,
                minor);
  }
  // What the planner would like to know; a driver that does not say is no reason to fail.
  const auto said = [&](DeviceAttribute attribute) {
    int value = 0;
    return call.device_attribute(&value, attribute, made->handle_) == runtime::cuda::success ? std::max(value, 0) : 0;
  };
  constexpr double khz_per_mhz = 1000;
  says.clock_mhz = said(DeviceAttribute::clock_khz) / khz_per_mhz;
  says.memory_clock_mhz = said(DeviceAttribute::memory_clock_khz) / khz_per_mhz;
  says.memory_bus_bits = said(DeviceAttribute::memory_bus_bits);
  says.l2_bytes = said(DeviceAttribute::l2_bytes);
  char name[256] = "";
  if (call.device_name(name, sizeof name - 1, made->handle_) == runtime::cuda::success) says.name = name;
  made->figures_ = planner_figures(says);
  made->loader_ = std::make_unique<Loader>(made->driver_, made->handle_, made->architecture_);
  made->kernels_ = &kernels_of(*made->driver_, ordinal);
  device = std::move(made);
  return FMS_OK;
}

plan::DeviceCaps Device::caps() const {
  plan::DeviceCaps caps;
  caps.kind = FMS_DEVICE_CUDA;
  caps.cpu_isa = FMS_ISA_AUTO;
  caps.gpu = figures_;
  caps.cuda_kernels = this;
  return caps;
}

fms_status Device::failed(runtime::cuda::Code code, const char* what, fms_error* error) const {
  if (code == runtime::cuda::success) return FMS_OK;
  const auto said = driver_->check(code, what);
  const fms_status status = code == runtime::cuda::out_of_memory ? FMS_OUT_OF_MEMORY : FMS_DEVICE_ERROR;
  return fail(error, status, "", "%s", said.error().to_string().c_str());
}

fms_status Device::find(const fms_attention_problem& problem, plan::CudaKernel (&found)[max_found], int* count,
                        fms_error* error) const {
  static_assert(max_found >= tile_classes);
  *count = 0;
  fms_error first{};  // FMS_OK
  InstanceAxes axes = axes_for(problem);
  for (int i = 0; i < tile_classes; ++i) {
    axes.tile_class = static_cast<TileClass>(i);
    const auto shipped = find_shipped(axes, problem);
    if (!shipped || shipped->shared_bytes() > shared_bytes_per_cta_) continue;
    const Loaded& loaded = kernels_->all[code_of(*shipped)];
    fms_error why{};
    if (loaded.kernel.load(std::memory_order_acquire) == nullptr && load(code_of(*shipped), &why) != FMS_OK) {
      if (first.code == FMS_OK) first = why;
      continue;
    }
    add(*shipped, loaded.ctas_per_sm, found, count);
  }
  if (*count > 0) return FMS_OK;
  if (first.code != FMS_OK) return fail(error, first.code, first.argument, "%s", first.message);
  // Compiled when one of them runs.
  const auto whole_steps = [](int64_t dim) { return static_cast<int>((dim + dim_step - 1) / dim_step * dim_step); };
  axes.dim = whole_steps(problem.head_dim);
  if (problem.value_dim != problem.head_dim) axes.value_dim = whole_steps(problem.value_dim);
  for (const TileClass tile_class : {TileClass::large, TileClass::decode}) {
    axes.tile_class = tile_class;
    add(axes, axes.tile().ctas_per_sm, found, count);
  }
  return FMS_OK;
}

void Device::add(const InstanceAxes& axes, int ctas_per_sm, plan::CudaKernel (&found)[max_found], int* count) const {
  if (axes.shared_bytes() > shared_bytes_per_cta_) return;
  found[(*count)++] = kernel_of(axes, ctas_per_sm);
}

fms_status Device::check(const fms_attention_plan& plan, fms_error* error) const {
  if (plan.sm_count != figures_.sm_count) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.sm_count",
                "plan.sm_count is %d, but this GPU has %d: the plan is another device's. Make it with this context",
                plan.sm_count, figures_.sm_count);
  }
  const bool is_code = plan.instance >= 0 && plan.instance < instance_codes;
  const InstanceAxes axes = axes_of(is_code ? plan.instance : 0);
  InstanceAxes wanted = axes_for(plan.problem);
  wanted.dim = axes.dim;
  wanted.value_dim = axes.value_dim;
  wanted.tile_class = axes.tile_class;
  if (!is_code || axes != wanted || !holds_sizes(axes, plan.problem) || axes.shared_bytes() > shared_bytes_per_cta_) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.instance",
                "plan.instance is %d, which is no kernel for this problem on this GPU. Make the plan with this context",
                plan.instance);
  }
  const Loaded& loaded = kernels_->all[static_cast<std::size_t>(plan.instance)];
  if (loaded.kernel.load(std::memory_order_acquire) == nullptr) {
    if (auto s = load(plan.instance, error)) return s;
  }
  return plan::holds_kernel(plan, kernel_of(axes, loaded.ctas_per_sm), error);
}

template <class Load>
fms_status Device::load_once(Loaded& loaded, const Load& load) const {
  const std::lock_guard lock(kernels_->loading);
  if (loaded.kernel.load(std::memory_order_acquire) != nullptr) return FMS_OK;
  LoadedKernel ready;
  if (auto s = load(ready)) return s;
  loaded.ctas_per_sm = ready.ctas_per_sm;
  loaded.image = ready.image;
  loaded.kernel.store(ready.kernel, std::memory_order_release);
  return FMS_OK;
}

fms_status Device::load(int code, fms_error* error) const {
  return load_once(kernels_->all[code], [&](LoadedKernel& to) { return loader_->load(axes_of(code), to, error); });
}

void Device::describe_image(const fms_attention_plan& plan, fms_kernel_image& image) const {
  const Loaded& loaded = kernels_->all[static_cast<std::size_t>(plan.instance)];
  image.kind = loaded.image.kind;
  image.image = loaded.image.bytes.data();
  image.bytes = loaded.image.bytes.size();
  std::snprintf(image.kernel, sizeof image.kernel, "%s", axes_of(plan.instance).name().c_str());
}

fms_status Device::run(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace,
                       fms_stream stream, fms_error* error) const {
  const auto code = static_cast<std::size_t>(plan.instance);
  KernelHandle kernel = kernels_->all[code].kernel.load(std::memory_order_acquire);
  const InstanceAxes axes = axes_of(plan.instance);
  ExtendedParams params = forward_params(plan, axes, args, workspace, figures_.l2_resident_bytes);
  const LaunchGrid grid = launch_grid(params);
  const auto stream_handle = static_cast<runtime::cuda::StreamHandle>(stream);
  const runtime::cuda::Functions& call = driver_->call();
  // The default stream is the current context's. With one GPU that is its own, or there is none and the launch says so.
  std::optional<Loader::InContext> current;
  if (device_count_ > 1) current.emplace(*loader_);
  if (params.arrived != nullptr && (args.flags & FMS_WORKSPACE_READY) == 0) {
    const auto counters = reinterpret_cast<runtime::cuda::DeviceAddress>(params.arrived);
    const auto count = static_cast<std::size_t>(plan::split_states(plan).counters);
    const auto cleared = call.fill_words_async(counters, 0, count, stream_handle);
    if (auto s = failed(cleared, "cuMemsetD32Async", error)) return s;
  }
  void* arguments[] = {&params};
  const auto launched = call.launch(reinterpret_cast<runtime::cuda::FunctionHandle>(kernel), grid.x, grid.y, grid.z,
                                    static_cast<unsigned>(plan.threads), 1, 1,
                                    static_cast<unsigned>(axes.shared_bytes()), stream_handle, arguments, nullptr);
  if (auto s = failed(launched, "cuLaunchKernel", error)) return s;
  if (args.info != nullptr) *args.info = {FMS_ISA_AUTO, plan.family, plan.threads, plan.kv_splits};
  return FMS_OK;
}

fms_status Device::merge(const fms_merge_problem& problem, const plan::MergeArgs& args, fms_stream stream,
                         fms_error* error) const {
  MergeLaunch launch;
  if (auto s = merge_launch(problem, args, launch, error)) return s;
  Loaded& loaded = kernels_->merge;
  if (loaded.kernel.load(std::memory_order_acquire) == nullptr) {
    if (auto s = load_once(loaded, [&](LoadedKernel& to) { return loader_->load_merge(to, error); })) return s;
  }
  // As in run().
  std::optional<Loader::InContext> current;
  if (device_count_ > 1) current.emplace(*loader_);
  void* arguments[] = {&launch.params};
  const auto launched = driver_->call().launch(
      reinterpret_cast<runtime::cuda::FunctionHandle>(loaded.kernel.load(std::memory_order_acquire)), launch.ctas, 1, 1,
      merge_threads, 1, 1, 0, static_cast<runtime::cuda::StreamHandle>(stream), arguments, nullptr);
  return failed(launched, "cuLaunchKernel", error);
}

}  // namespace flashmoe::cuda
