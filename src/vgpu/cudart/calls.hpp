// How a call of the runtime becomes calls of the driver: a context is made current as the runtime promises, and what
// went wrong is kept for cudaGetLastError.
#pragma once

#include <exception>

#include "vgpu/cudart/driver_calls.hpp"
#include "vgpu/cudart/runtime_abi.hpp"

namespace flashmoe::vgpu::cudart {

// The thread's device, and its primary context where the thread has none of its own.
[[nodiscard]] cudaError_t make_ready();
[[nodiscard]] int current_device();
[[nodiscard]] cudaError_t choose_device(int device);
// After cudaDeviceReset.
void forget_contexts();

// For cudaGetLastError; returns it. "Not ready" is an answer, no error.
cudaError_t kept(cudaError_t error);
// Takes the thread's last error away.
cudaError_t taken_error();
[[nodiscard]] cudaError_t last_error();

// A C caller cannot catch.
template <class Body>
cudaError_t answered(const Body& body) noexcept {
  try {
    return kept(body());
  } catch (const std::exception&) {
    return kept(cudaErrorUnknown);
  }
}

// `body` with a context; its CUresult is the answer.
template <class Body>
cudaError_t on_device(const Body& body) noexcept {
  return answered([&]() -> cudaError_t {
    const cudaError_t error = make_ready();
    return error != cudaSuccess ? error : static_cast<cudaError_t>(body());
  });
}

// A copy of a box, as the driver has it (array_api.cpp).
[[nodiscard]] CUresult driver_box(const cudaMemcpy3DParms* what, CUDA_MEMCPY3D& copy);

inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace flashmoe::vgpu::cudart

// A function of the runtime that is one of the driver, with a context made current.
#define VGPU_FORWARD(runtime, parameters, call)                                   \
  VGPU_RUNTIME cudaError_t runtime parameters {                                   \
    return flashmoe::vgpu::cudart::on_device([&]() -> CUresult { return call; }); \
  }
