#include "kernels/cuda/launch/loader.hpp"

#include <array>
#include <utility>

#include "kernels/cuda/attention/merge_params.hpp"
#include "kernels/cuda/jit/jit.hpp"
#include "kernels/cuda/launch/images.hpp"
#include "support/status.hpp"

namespace flashmoe::cuda {

using runtime::cuda::CaptureMode;
using runtime::cuda::Code;

namespace {

constexpr int most_ctas_per_sm = 32;  // of every architecture: CUDA C++ Programming Guide, compute capabilities

// Another image changes nothing about a device without memory, a broken context or a capture.
bool another_image_may_help(Code code) {
  switch (code) {
    case runtime::cuda::out_of_memory:
    case 3:    // NOT_INITIALIZED
    case 4:    // DEINITIALIZED
    case 100:  // NO_DEVICE
    case 101:  // INVALID_DEVICE
    case 201:  // INVALID_CONTEXT
    case 700:  // ILLEGAL_ADDRESS
    case 709:  // CONTEXT_IS_DESTROYED
    case 716:  // MISALIGNED_ADDRESS
    case 719:  // LAUNCH_FAILED
    case 900:  // STREAM_CAPTURE_UNSUPPORTED
      return false;
    default:
      return true;
  }
}

// Loading would end a capture that is under way, of this thread or of another one. CUDA Driver API,
// cuThreadExchangeStreamCaptureMode: a relaxed thread may.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const runtime::cuda::Functions& call)
      : call_(call), is_relaxed_(call.exchange_capture_mode(&mode_) == runtime::cuda::success) {}
  ~RelaxedCapture() {
    if (is_relaxed_) static_cast<void>(call_.exchange_capture_mode(&mode_));
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const runtime::cuda::Functions& call_;
  CaptureMode mode_ = CaptureMode::relaxed;
  bool is_relaxed_;
};

JitRequest request_for(const InstanceAxes& axes, const std::string& name, int architecture, int driver) {
  return {name.c_str(),  axes.dtype == FMS_F16 ? "Half" : "BFloat16",
          axes.dim,      tile_class_names[static_cast<int>(axes.tile_class)],
          axes.is_paged, axes.is_modified,
          architecture,  driver,
          axes.value_dim};
}

}  // namespace

Loader::Loader(std::shared_ptr<const runtime::Driver> driver, runtime::cuda::DeviceHandle device, int architecture)
    : driver_(std::move(driver)), device_(device), architecture_(architecture) {}

Loader::~Loader() {
  // A driver that has shut down before us says so, and has released it itself.
  if (primary_ != nullptr) static_cast<void>(driver_->call().primary_release(device_));
}

runtime::cuda::ContextHandle Loader::primary() const {
  const std::lock_guard lock(retaining_);
  runtime::cuda::ContextHandle context = nullptr;
  if (primary_ == nullptr && driver_->call().primary_retain(&context, device_) == runtime::cuda::success)
    primary_ = context;
  return primary_;
}

Loader::InContext::InContext(const Loader& loader) : loader_(loader) {
  const runtime::cuda::Functions& call = loader.driver_->call();
  runtime::cuda::DeviceHandle current = -1;
  if (call.context_device(&current) == runtime::cuda::success && current == loader.device_) return;
  const runtime::cuda::ContextHandle primary = loader.primary();
  // Where there is none, the call that needs it says so.
  is_pushed_ = primary != nullptr && call.context_push(primary) == runtime::cuda::success;
}

Loader::InContext::~InContext() {
  runtime::cuda::ContextHandle popped = nullptr;
  if (is_pushed_) static_cast<void>(loader_.driver_->call().context_pop(&popped));
}

std::optional<Loader::Refusal> Loader::make_ready(runtime::cuda::LibraryHandle library, const Entry& entry,
                                                  LoadedKernel& loaded) const {
  const runtime::cuda::Functions& call = driver_->call();
  runtime::cuda::KernelHandle kernel = nullptr;
  if (const Code code = call.library_kernel(&kernel, library, entry.name.c_str()); code != runtime::cuda::success)
    return Refusal{code, "cuLibraryGetKernel"};
  if (kernel == nullptr) return Refusal{runtime::cuda::unknown_error, "cuLibraryGetKernel gave no kernel"};
  if (const Code code = call.kernel_set_attribute(runtime::cuda::FunctionAttribute::max_dynamic_shared_bytes,
                                                  entry.shared_bytes, kernel, device_);
      code != runtime::cuda::success)
    return Refusal{code, "cuKernelSetAttribute"};
  // Asked for every kernel: the answer needs its code, so that the launch finds it loaded.
  int held = 0;
  if (const Code code = call.occupancy(&held, reinterpret_cast<runtime::cuda::FunctionHandle>(kernel), entry.threads,
                                       static_cast<std::size_t>(entry.shared_bytes));
      code != runtime::cuda::success)
    return Refusal{code, "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  if (held < 1)
    return Refusal{runtime::cuda::unknown_error, "cuOccupancyMaxActiveBlocksPerMultiprocessor gave " +
                                                     std::to_string(held) + " CTAs for " + entry.name};
  loaded = {kernel, held, {}};
  return std::nullopt;
}

std::optional<Loader::Refusal> Loader::attempt(const void* image, const Entry& entry, LoadedKernel& loaded) const {
  using runtime::cuda::JitOption;
  const runtime::cuda::Functions& call = driver_->call();
  std::array<char, 192> log{};  // its beginning: the fix has to fit behind it
  std::array options{static_cast<int>(JitOption::error_log_buffer), static_cast<int>(JitOption::error_log_bytes)};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  runtime::cuda::LibraryHandle library = nullptr;
  const Code code = call.library_load(&library, image, options.data(), values.data(),
                                      static_cast<unsigned>(options.size()), nullptr, nullptr, 0);
  log.back() = '\0';
  const std::string why = log[0] == '\0' ? "" : std::string(" (") + log.data() + ")";
  if (code != runtime::cuda::success) return Refusal{code, "cuLibraryLoadData" + why};
  if (library == nullptr) return Refusal{runtime::cuda::unknown_error, "cuLibraryLoadData gave no library"};
  auto refusal = make_ready(library, entry, loaded);
  if (refusal) static_cast<void>(call.library_unload(library));
  return refusal;
}

std::optional<Loader::Refusal> Loader::try_shipped(const Entry& entry, LoadedKernel& loaded) const {
  std::optional<Refusal> refusal = Refusal{runtime::cuda::no_binary_for_gpu, entry.name + " in the library"};
  const bool knows_cubins = driver_->version() / 1000 >= image_toolkit() / 1000;
  for (const PackedImage& packed : packed_images()) {
    if (entry.name != packed.kernel) continue;
    const Image image = unpacked(packed);
    if (image.ptx.empty()) return Refusal{runtime::cuda::no_binary_for_gpu, "unpacking " + entry.name};
    if (knows_cubins) {
      refusal = attempt(image.fatbin.data(), entry, loaded);
      if (!refusal) loaded.image = {FMS_IMAGE_FATBIN, image.fatbin};
    }
    if (refusal && another_image_may_help(refusal->code)) {
      refusal = attempt(image.ptx.data(), entry, loaded);
      if (!refusal) loaded.image = {FMS_IMAGE_PTX, image.ptx};
    }
  }
  return refusal;
}

fms_status Loader::refused(const Refusal& refusal, fms_error* error) const {
  const auto said = driver_->check(refusal.code, refusal.what.c_str());
  return fail(error, refusal.code == runtime::cuda::out_of_memory ? FMS_OUT_OF_MEMORY : FMS_DEVICE_ERROR, "", "%s",
              said.error().to_string().c_str());
}

fms_status Loader::load(const InstanceAxes& axes, LoadedKernel& loaded, fms_error* error) const {
  const std::string name = axes.name();
  const auto compile = [&](int architecture) {
    return jit_image(request_for(axes, name, architecture, driver_->version()));
  };
  const bool comes_along = is_listed(axes) && !packed_images().empty();
  const Entry entry{name, axes.tile().threads(), axes.shared_bytes(), "problem.head_dim"};
  if (auto s = load_from_any(entry, comes_along, compile, loaded, error)) return s;
  // Plans are made before a kernel is compiled: what registers are limited for stands for the occupancy. And for what
  // no GPU can hold.
  if (!comes_along || loaded.ctas_per_sm > most_ctas_per_sm) loaded.ctas_per_sm = axes.tile().ctas_per_sm;
  return FMS_OK;
}

template <class Compile>
fms_status Loader::load_from_any(const Entry& entry, bool comes_along, const Compile& compile, LoadedKernel& loaded,
                                 fms_error* error) const {
  const RelaxedCapture relaxed(driver_->call());
  const InContext current(*this);
  std::optional<Refusal> refusal;
  if (comes_along) {
    refusal = try_shipped(entry, loaded);
    if (!refusal) return FMS_OK;
  }
  for (const int architecture : {architecture_, 0}) {
    if (refusal && !another_image_may_help(refusal->code)) break;
    const Result<std::vector<char>> image = compile(architecture);
    // Of a kernel that is shipped, why it does not load says more.
    if (!image && refusal) break;
    if (!image) return fail(error, FMS_DEVICE_ERROR, entry.argument, "%s", image.error().to_string().c_str());
    refusal = attempt(image->data(), entry, loaded);
    if (!refusal) return FMS_OK;
  }
  return refused(*refusal, error);
}

fms_status Loader::load_merge(LoadedKernel& loaded, fms_error* error) const {
  const auto compile = [&](int architecture) { return jit_merge_image(architecture, driver_->version()); };
  return load_from_any({merge_name, merge_threads, 0, ""}, !packed_images().empty(), compile, loaded, error);
}

}  // namespace flashmoe::cuda
