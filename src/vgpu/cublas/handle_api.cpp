// Handles and their settings, names of errors, and copies of vectors and matrices between host and device.
#include <new>

#include "vgpu/cublas/work.hpp"

extern "C" CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* what, CUstream stream);
extern "C" CUresult cuStreamSynchronize(CUstream stream);

namespace {

using flashmoe::vgpu::cublas::make_ready;

constexpr int version = 130100;  // CUBLAS_VERSION of the headers that the ABI is from

cublasStatus_t set(cublasHandle_t handle, int cublasContext::*setting, int value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->*setting = value;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t get(cublasHandle_t handle, int cublasContext::*setting, int* value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *value = handle->*setting;
  return CUBLAS_STATUS_SUCCESS;
}

// `columns` pieces of `rows` elements.
cublasStatus_t copy(bool to_device, std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                    const void* from, std::int64_t from_step, void* to, std::int64_t to_step, CUstream stream,
                    bool waits) {
  if (rows < 0 || columns < 0 || element_bytes <= 0 || from_step < rows || to_step < rows || from_step <= 0 ||
      to_step <= 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (rows == 0 || columns == 0) return CUBLAS_STATUS_SUCCESS;
  if (!make_ready()) return CUBLAS_STATUS_NOT_INITIALIZED;
  CUDA_MEMCPY2D what{};
  what.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  what.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  what.srcHost = from;
  what.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  what.srcPitch = static_cast<std::size_t>(from_step * element_bytes);
  what.dstHost = to;
  what.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  what.dstPitch = static_cast<std::size_t>(to_step * element_bytes);
  what.WidthInBytes = static_cast<std::size_t>(rows * element_bytes);
  what.Height = static_cast<std::size_t>(columns);
  if (cuMemcpy2DAsync_v2(&what, stream) != CUDA_SUCCESS) return CUBLAS_STATUS_MAPPING_ERROR;
  if (waits && cuStreamSynchronize(stream) != CUDA_SUCCESS) return CUBLAS_STATUS_MAPPING_ERROR;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

VGPU_BLAS cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = nullptr;
  if (!make_ready()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new (std::nothrow) cublasContext;
  return *handle == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CUstream stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, CUstream* stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
// Nothing here needs one.
VGPU_BLAS cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* /*workspace*/, std::size_t /*bytes*/) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, int mode) {
  return set(handle, &cublasContext::pointer_mode, mode);
}
VGPU_BLAS cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, int* mode) {
  return get(handle, &cublasContext::pointer_mode, mode);
}
// How a GPU may shorten its sums, which the CPU does not.
VGPU_BLAS cublasStatus_t cublasSetMathMode(cublasHandle_t handle, int mode) {
  return set(handle, &cublasContext::math_mode, mode);
}
VGPU_BLAS cublasStatus_t cublasGetMathMode(cublasHandle_t handle, int* mode) {
  return get(handle, &cublasContext::math_mode, mode);
}
VGPU_BLAS cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, int mode) {
  return set(handle, &cublasContext::atomics_mode, mode);
}
VGPU_BLAS cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, int* mode) {
  return get(handle, &cublasContext::atomics_mode, mode);
}
VGPU_BLAS cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  return set(handle, &cublasContext::sm_count_target, count);
}
VGPU_BLAS cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* count) {
  return get(handle, &cublasContext::sm_count_target, count);
}
VGPU_BLAS cublasStatus_t cublasGetVersion_v2(cublasHandle_t /*handle*/, int* out) {
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *out = version;
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS cublasStatus_t cublasGetProperty(int property, int* value) {
  if (value == nullptr || property < 0 || property > 2) return CUBLAS_STATUS_INVALID_VALUE;
  constexpr int parts[] = {version / 10000, version / 100 % 100, version % 100};
  *value = parts[property];  // MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
  return CUBLAS_STATUS_SUCCESS;
}
VGPU_BLAS std::size_t cublasGetCudartVersion() {
  return 13000;
}
VGPU_BLAS std::size_t cublasLtGetVersion() {
  return version;
}
VGPU_BLAS std::size_t cublasLtGetCudartVersion() {
  return 13000;
}
VGPU_BLAS const char* cublasGetStatusName(cublasStatus_t status) {
#define VGPU_BLAS_STATUS(name, value) \
  if (status == (value)) return #name;
#include "vgpu/cublas/statuses.def"
#undef VGPU_BLAS_STATUS
  return "CUBLAS_STATUS_UNKNOWN";
}
VGPU_BLAS_ALIAS(cublasGetStatusName, cublasGetStatusString);
VGPU_BLAS_ALIAS(cublasGetStatusName, cublasLtGetStatusName);
VGPU_BLAS_ALIAS(cublasGetStatusName, cublasLtGetStatusString);
// Everything that is to be said stands in the driver's log.
VGPU_BLAS cublasStatus_t cublasLoggerConfigure(int /*is_on*/, int /*to_stdout*/, int /*to_stderr*/,
                                               const char* /*file*/) {
  return CUBLAS_STATUS_SUCCESS;
}

// Count: int, and in the functions of large sizes std::int64_t.
#define VGPU_COPIES(Count, suffix)                                                                                   \
  VGPU_BLAS cublasStatus_t cublasSetVector##suffix(Count n, Count bytes, const void* x, Count step_x, void* y,       \
                                                   Count step_y) {                                                   \
    return copy(true, 1, n, bytes, x, step_x, y, step_y, nullptr, true);                                             \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasGetVector##suffix(Count n, Count bytes, const void* x, Count step_x, void* y,       \
                                                   Count step_y) {                                                   \
    return copy(false, 1, n, bytes, x, step_x, y, step_y, nullptr, true);                                            \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasSetMatrix##suffix(Count rows, Count columns, Count bytes, const void* a, Count lda, \
                                                   void* b, Count ldb) {                                             \
    return copy(true, rows, columns, bytes, a, lda, b, ldb, nullptr, true);                                          \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasGetMatrix##suffix(Count rows, Count columns, Count bytes, const void* a, Count lda, \
                                                   void* b, Count ldb) {                                             \
    return copy(false, rows, columns, bytes, a, lda, b, ldb, nullptr, true);                                         \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasSetVectorAsync##suffix(Count n, Count bytes, const void* x, Count step_x, void* y,  \
                                                        Count step_y, CUstream stream) {                             \
    return copy(true, 1, n, bytes, x, step_x, y, step_y, stream, false);                                             \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasGetVectorAsync##suffix(Count n, Count bytes, const void* x, Count step_x, void* y,  \
                                                        Count step_y, CUstream stream) {                             \
    return copy(false, 1, n, bytes, x, step_x, y, step_y, stream, false);                                            \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasSetMatrixAsync##suffix(Count rows, Count columns, Count bytes, const void* a,       \
                                                        Count lda, void* b, Count ldb, CUstream stream) {            \
    return copy(true, rows, columns, bytes, a, lda, b, ldb, stream, false);                                          \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasGetMatrixAsync##suffix(Count rows, Count columns, Count bytes, const void* a,       \
                                                        Count lda, void* b, Count ldb, CUstream stream) {            \
    return copy(false, rows, columns, bytes, a, lda, b, ldb, stream, false);                                         \
  }
VGPU_COPIES(int, )
VGPU_COPIES(std::int64_t, _64)
#undef VGPU_COPIES
