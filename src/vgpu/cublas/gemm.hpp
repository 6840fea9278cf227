// C = alpha * op(A) op(B) + beta * C, of one matrix or many, as all functions of the family ask for it.
#pragma once

#include <cstdint>

#include "vgpu/cublas/work.hpp"

namespace flashmoe::vgpu::cublas {

struct Operand {
  int type = 0;              // cudaDataType
  const void* at = nullptr;  // of the first matrix; of pointers to matrices, in device memory, where `by_pointers`
  std::int64_t ld = 0;
  std::int64_t stride = 0;  // elements from a matrix to the next
};

struct Gemm {
  int op_a = 0, op_b = 0;
  std::int64_t m = 0, n = 0, k = 0;
  const void *alpha = nullptr, *beta = nullptr;
  Operand a{}, b{}, c{};
  std::int64_t batch = 1;
  bool by_pointers = false;
  int compute = CUBLAS_COMPUTE_32F;
};

// How sums are formed and what alpha and beta are, by a cublasComputeType_t; scale_type -1: not computed here.
struct Computation {
  int scale_type = -1;
  bool sums_in_double = false;
};
[[nodiscard]] Computation computation(int compute);
[[nodiscard]] bool is_computed(const Computation& how, int a, int b, int c);

[[nodiscard]] cublasStatus_t gemm(const char* name, cublasHandle_t handle, const Gemm& asked);

}  // namespace flashmoe::vgpu::cublas
