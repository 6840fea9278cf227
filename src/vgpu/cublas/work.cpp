#include "vgpu/cublas/work.hpp"

#include <new>

#include "vgpu/cublas/numbers.hpp"
#include "vgpu/driver/log.hpp"

extern "C" {
CUresult cuInit(unsigned flags);
CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags, int* status);
}

namespace flashmoe::vgpu::cublas {
namespace {

VgpuHostWorkFunction host_work() {
  static const auto found = [] {
    void* function = nullptr;
    const CUresult result = cuGetProcAddress_v2("vgpuHostWork", &function, 13000, 0, nullptr);
    if (result != CUDA_SUCCESS) {
      driver::log_once("this libcublas computes for the virtual GPU alone, and libcuda.so.1 is another driver");
      function = nullptr;
    }
    return reinterpret_cast<VgpuHostWorkFunction>(function);
  }();
  return found;
}

void compute(void* user, VgpuHostAccess* access) {
  (*static_cast<Work*>(user))(Access(*access));
}
void release(void* user) {
  delete static_cast<Work*>(user);
}

}  // namespace

bool make_ready() {
  if (cuInit(0) != CUDA_SUCCESS || host_work() == nullptr) return false;
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) return true;
  return cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

cublasStatus_t submit(const char* name, CUstream stream, Work work) {
  if (!make_ready()) return CUBLAS_STATUS_NOT_INITIALIZED;
  const VgpuHostWork asked{.name = name, .compute = compute, .release = release, .user = new Work(std::move(work))};
  return host_work()(stream, &asked) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

Scalar::Scalar(int type, const void* at, bool is_on_device) : type_(type) {
  if (is_on_device)
    on_device_ = at;
  else
    value_ = read_scalar(type, at);
}

std::optional<double> Scalar::value(const char* what, const Access& access) const {
  if (on_device_ == nullptr) return value_;
  if (!access.reads(what, on_device_, bytes_of(type_))) return std::nullopt;
  return read_scalar(type_, on_device_);
}

}  // namespace flashmoe::vgpu::cublas
