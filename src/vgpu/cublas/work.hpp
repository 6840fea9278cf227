// A call as work in a stream of the virtual GPU, computed on the CPU (vgpu/driver/host_work.hpp).
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>

#include "vgpu/cublas/cublas_abi.hpp"
#include "vgpu/driver/host_work.hpp"

namespace flashmoe::vgpu::cublas {

// What the work is about to touch. False: it is not there, and the work ends.
class Access {
 public:
  explicit Access(VgpuHostAccess& access) : access_(&access) {}
  [[nodiscard]] bool reads(const char* what, const void* at, std::size_t row_bytes, std::size_t rows = 1,
                           std::size_t pitch = 0) const {
    const VgpuHostRange range = range_of(what, at, row_bytes, rows, pitch);
    return access_->may_read(access_, &range);
  }
  [[nodiscard]] bool writes(const char* what, const void* at, std::size_t row_bytes, std::size_t rows = 1,
                            std::size_t pitch = 0) const {
    const VgpuHostRange range = range_of(what, at, row_bytes, rows, pitch);
    return access_->may_write(access_, &range);
  }

 private:
  static VgpuHostRange range_of(const char* what, const void* at, std::size_t row_bytes, std::size_t rows,
                                std::size_t pitch) {
    return {.what = what,
            .address = reinterpret_cast<CUdeviceptr>(at),
            .row_bytes = row_bytes,
            .rows = rows,
            .pitch = pitch};
  }
  VgpuHostAccess* access_;
};

using Work = std::function<void(const Access&)>;

// Does it in the stream's order, or keeps it for the graph that the stream is captured into. `name` is a literal.
[[nodiscard]] cublasStatus_t submit(const char* name, CUstream stream, Work work);
// Whether there is a driver that takes such work; a context is current then.
[[nodiscard]] bool make_ready();

// alpha, beta: a number of the caller's, read now, or one in device memory, read when the work is done.
class Scalar {
 public:
  Scalar(int type, const void* at, bool is_on_device);
  // Nothing: it is not there.
  [[nodiscard]] std::optional<double> value(const char* what, const Access& access) const;

 private:
  int type_;
  const void* on_device_ = nullptr;
  double value_ = 0;
};

// A C caller cannot catch.
template <class Body>
cublasStatus_t answered(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return CUBLAS_STATUS_ALLOC_FAILED;
  } catch (const std::exception&) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  }
}

}  // namespace flashmoe::vgpu::cublas

// What cublasCreate makes.
struct cublasContext {
  CUstream stream = nullptr;
  int pointer_mode = CUBLAS_POINTER_MODE_HOST;
  int math_mode = CUBLAS_DEFAULT_MATH;
  int atomics_mode = 0;
  int sm_count_target = 0;
  [[nodiscard]] flashmoe::vgpu::cublas::Scalar scalar(int type, const void* at) const {
    return {type, at, pointer_mode == CUBLAS_POINTER_MODE_DEVICE};
  }
};
