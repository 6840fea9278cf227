// The part of cuBLAS's documented C ABI (13.0) that is implemented here, written down so that nothing needs a CUDA
// toolkit to build; cublas_abi_test compares it with the toolkit's headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vgpu/driver/cuda_abi.hpp"

#define VGPU_BLAS extern "C" __attribute__((visibility("default")))
#define VGPU_BLAS_ALIAS(function, variant) \
  extern "C" __attribute__((visibility("default"), alias(#function))) decltype(function) variant

#define VGPU_BLAS_VALUE(name, value) inline constexpr int name = value;
#include "vgpu/cublas/values.def"
#undef VGPU_BLAS_VALUE
using cublasStatus_t = int;
#define VGPU_BLAS_STATUS(name, value) inline constexpr cublasStatus_t name = value;
#include "vgpu/cublas/statuses.def"
#undef VGPU_BLAS_STATUS

using cublasHandle_t = struct cublasContext*;
using cublasLtHandle_t = struct cublasLtContext*;

struct cublasLtMatrixLayoutOpaque_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulDescOpaque_t {
  std::uint64_t data[32];
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};
