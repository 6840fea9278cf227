// The family of gemm: by type, by types of each operand (Ex), of many matrices a stride apart or behind pointers.
#include "vgpu/cublas/gemm.hpp"

using flashmoe::vgpu::cublas::Operand;

namespace {

struct Sizes {
  int op_a, op_b;
  std::int64_t m, n, k;
};

cublasStatus_t asked(const char* name, cublasHandle_t handle, const Sizes& sizes, const void* alpha, const void* beta,
                     const Operand& a, const Operand& b, const Operand& c, int compute, std::int64_t batch = 1,
                     bool by_pointers = false) {
  return flashmoe::vgpu::cublas::gemm(name, handle,
                                      {.op_a = sizes.op_a,
                                       .op_b = sizes.op_b,
                                       .m = sizes.m,
                                       .n = sizes.n,
                                       .k = sizes.k,
                                       .alpha = alpha,
                                       .beta = beta,
                                       .a = a,
                                       .b = b,
                                       .c = c,
                                       .batch = batch,
                                       .by_pointers = by_pointers,
                                       .compute = compute});
}

}  // namespace

// Count: int, and in the functions of large sizes std::int64_t. Suffixes: those of the API's names.
#define VGPU_GEMM(letter, Number, data_type, compute_type, Count, suffix, v2_suffix)                                \
  VGPU_BLAS cublasStatus_t cublas##letter##gemm##v2_suffix(                                                         \
      cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k, const Number* alpha, const Number* a,   \
      Count lda, const Number* b, Count ldb, const Number* beta, Number* c, Count ldc) {                            \
    return asked("cublas" #letter "gemm", handle, {op_a, op_b, m, n, k}, alpha, beta, {data_type, a, lda},          \
                 {data_type, b, ldb}, {data_type, c, ldc}, compute_type);                                           \
  }                                                                                                                 \
  VGPU_BLAS cublasStatus_t cublas##letter##gemmStridedBatched##suffix(                                              \
      cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k, const Number* alpha, const Number* a,   \
      Count lda, long long stride_a, const Number* b, Count ldb, long long stride_b, const Number* beta, Number* c, \
      Count ldc, long long stride_c, Count batch) {                                                                 \
    return asked("cublas" #letter "gemmStridedBatched", handle, {op_a, op_b, m, n, k}, alpha, beta,                 \
                 {data_type, a, lda, stride_a}, {data_type, b, ldb, stride_b}, {data_type, c, ldc, stride_c},       \
                 compute_type, batch);                                                                              \
  }                                                                                                                 \
  VGPU_BLAS cublasStatus_t cublas##letter##gemmBatched##suffix(                                                     \
      cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k, const Number* alpha,                    \
      const Number* const* a, Count lda, const Number* const* b, Count ldb, const Number* beta, Number* const* c,   \
      Count ldc, Count batch) {                                                                                     \
    return asked("cublas" #letter "gemmBatched", handle, {op_a, op_b, m, n, k}, alpha, beta, {data_type, a, lda},   \
                 {data_type, b, ldb}, {data_type, c, ldc}, compute_type, batch, true);                              \
  }
// A half is its bits to a C caller.
#define VGPU_GEMMS(Count, suffix, v2_suffix)                                     \
  VGPU_GEMM(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, Count, suffix, v2_suffix)  \
  VGPU_GEMM(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, Count, suffix, v2_suffix) \
  VGPU_GEMM(H, std::uint16_t, CUDA_R_16F, CUBLAS_COMPUTE_16F, Count, suffix, suffix)
VGPU_GEMMS(int, , _v2)
VGPU_GEMMS(std::int64_t, _64, _v2_64)
#undef VGPU_GEMMS
#undef VGPU_GEMM

#define VGPU_GEMM_EX(Count, suffix)                                                                                    \
  VGPU_BLAS cublasStatus_t cublasGemmEx##suffix(cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k,  \
                                                const void* alpha, const void* a, int type_a, Count lda,               \
                                                const void* b, int type_b, Count ldb, const void* beta, void* c,       \
                                                int type_c, Count ldc, int compute, int /*algorithm*/) {               \
    return asked("cublasGemmEx", handle, {op_a, op_b, m, n, k}, alpha, beta, {type_a, a, lda}, {type_b, b, ldb},       \
                 {type_c, c, ldc}, compute);                                                                           \
  }                                                                                                                    \
  VGPU_BLAS cublasStatus_t cublasGemmStridedBatchedEx##suffix(                                                         \
      cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k, const void* alpha, const void* a,          \
      int type_a, Count lda, long long stride_a, const void* b, int type_b, Count ldb, long long stride_b,             \
      const void* beta, void* c, int type_c, Count ldc, long long stride_c, Count batch, int compute,                  \
      int /*algorithm*/) {                                                                                             \
    return asked("cublasGemmStridedBatchedEx", handle, {op_a, op_b, m, n, k}, alpha, beta, {type_a, a, lda, stride_a}, \
                 {type_b, b, ldb, stride_b}, {type_c, c, ldc, stride_c}, compute, batch);                              \
  }                                                                                                                    \
  VGPU_BLAS cublasStatus_t cublasGemmBatchedEx##suffix(                                                                \
      cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k, const void* alpha, const void* const* a,   \
      int type_a, Count lda, const void* const* b, int type_b, Count ldb, const void* beta, void* const* c,            \
      int type_c, Count ldc, Count batch, int compute, int /*algorithm*/) {                                            \
    return asked("cublasGemmBatchedEx", handle, {op_a, op_b, m, n, k}, alpha, beta, {type_a, a, lda},                  \
                 {type_b, b, ldb}, {type_c, c, ldc}, compute, batch, true);                                            \
  }                                                                                                                    \
  VGPU_BLAS cublasStatus_t cublasSgemmEx##suffix(cublasHandle_t handle, int op_a, int op_b, Count m, Count n, Count k, \
                                                 const float* alpha, const void* a, int type_a, Count lda,             \
                                                 const void* b, int type_b, Count ldb, const float* beta, void* c,     \
                                                 int type_c, Count ldc) {                                              \
    return asked("cublasSgemmEx", handle, {op_a, op_b, m, n, k}, alpha, beta, {type_a, a, lda}, {type_b, b, ldb},      \
                 {type_c, c, ldc}, CUBLAS_COMPUTE_32F);                                                                \
  }
VGPU_GEMM_EX(int, )
VGPU_GEMM_EX(std::int64_t, _64)
#undef VGPU_GEMM_EX
