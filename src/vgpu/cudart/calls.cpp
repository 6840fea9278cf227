#include "vgpu/cudart/calls.hpp"

#include <map>
#include <mutex>

namespace flashmoe::vgpu::cudart {
namespace {

thread_local cudaError_t thread_error = cudaSuccess;
thread_local int thread_device = 0;

std::mutex& contexts_mutex() {
  static auto& mutex = *new std::mutex;  // outlives all that is destroyed at exit
  return mutex;
}
std::map<int, CUcontext>& primary_contexts() {
  static auto& contexts = *new std::map<int, CUcontext>;
  return contexts;
}

cudaError_t primary_context(int device, CUcontext& context) {
  const std::lock_guard lock(contexts_mutex());
  if (const auto found = primary_contexts().find(device); found != primary_contexts().end()) {
    context = found->second;
    return cudaSuccess;
  }
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return result;
  CUdevice handle = 0;
  if (const CUresult result = cuDeviceGet(&handle, device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = cuDevicePrimaryCtxRetain(&context, handle); result != CUDA_SUCCESS) return result;
  primary_contexts()[device] = context;
  return cudaSuccess;
}

}  // namespace

cudaError_t make_ready() {
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) return cudaSuccess;
  if (const cudaError_t error = primary_context(thread_device, context); error != cudaSuccess) return error;
  return cuCtxSetCurrent(context);
}

int current_device() {
  CUdevice device = 0;
  return cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : thread_device;
}

cudaError_t choose_device(int device) {
  int count = 0;
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return result;
  if (const CUresult result = cuDeviceGetCount(&count); result != CUDA_SUCCESS) return result;
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  thread_device = device;
  CUcontext context = nullptr;
  if (const cudaError_t error = primary_context(device, context); error != cudaSuccess) return error;
  return cuCtxSetCurrent(context);
}

void forget_contexts() {
  const std::lock_guard lock(contexts_mutex());
  primary_contexts().clear();
}

cudaError_t kept(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) thread_error = error;
  return error;
}

cudaError_t taken_error() {
  const cudaError_t error = thread_error;
  thread_error = cudaSuccess;
  return error;
}

cudaError_t last_error() {
  return thread_error;
}

}  // namespace flashmoe::vgpu::cudart
