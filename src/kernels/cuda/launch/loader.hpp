// From an instance to a kernel that can be launched. Drivers load lazily: what is wrong with an image may show when it
// is loaded, when its kernel is asked for, or when that is used for the first time. So all of these are one attempt,
// and where it fails the next image gets its own.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "flashmoe/flashmoe.h"
#include "kernels/cuda/launch/instances.hpp"
#include "runtime/driver.hpp"

namespace flashmoe::cuda {

// What the driver was handed.
struct LoadedImage {
  fms_image_kind kind = FMS_IMAGE_COMPILED;
  std::span<const unsigned char> bytes{};  // the library's own; NVRTC's are not kept
};

struct LoadedKernel {
  runtime::cuda::KernelHandle kernel = nullptr;
  int ctas_per_sm = 0;  // that plans count with
  LoadedImage image{};
};

class Loader {
 public:
  Loader(std::shared_ptr<const runtime::Driver> driver, runtime::cuda::DeviceHandle device, int architecture);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The shipped fatbin, its PTX, then what NVRTC makes; instances that are not shipped have the last alone. The kernel
  // stays loaded until the process ends: it belongs to no context, work may be queued, and graphs may hold it.
  [[nodiscard]] fms_status load(const InstanceAxes& axes, LoadedKernel& loaded, fms_error* error) const;
  // The kernel of fms_merge_states, likewise.
  [[nodiscard]] fms_status load_merge(LoadedKernel& loaded, fms_error* error) const;

  // A context of the device is current while it lives: the caller's own if it is one, else the primary one.
  class InContext {
   public:
    explicit InContext(const Loader& loader);
    ~InContext();
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

   private:
    const Loader& loader_;
    bool is_pushed_ = false;
  };

 private:
  // A kernel by its name, and how it will be launched.
  struct Entry {
    std::string name;
    int threads, shared_bytes;
    const char* argument;  // of the caller, that wants it
  };
  // Why an image is of no use: the call and its result.
  struct Refusal {
    runtime::cuda::Code code;
    std::string what;
  };
  [[nodiscard]] std::optional<Refusal> attempt(const void* image, const Entry& entry, LoadedKernel& loaded) const;
  [[nodiscard]] std::optional<Refusal> make_ready(runtime::cuda::LibraryHandle library, const Entry& entry,
                                                  LoadedKernel& loaded) const;
  [[nodiscard]] std::optional<Refusal> try_shipped(const Entry& entry, LoadedKernel& loaded) const;
  // The shipped images, if there are, then what `compile` makes for an architecture (0: PTX).
  template <class Compile>
  [[nodiscard]] fms_status load_from_any(const Entry& entry, bool comes_along, const Compile& compile,
                                         LoadedKernel& loaded, fms_error* error) const;
  [[nodiscard]] fms_status refused(const Refusal& refusal, fms_error* error) const;
  [[nodiscard]] runtime::cuda::ContextHandle primary() const;

  std::shared_ptr<const runtime::Driver> driver_;
  runtime::cuda::DeviceHandle device_;
  int architecture_;
  mutable std::mutex retaining_{};
  mutable runtime::cuda::ContextHandle primary_ = nullptr;
};

}  // namespace flashmoe::cuda
