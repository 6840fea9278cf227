#include "vgpu/cublas/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "vgpu/cublas/numbers.hpp"
#include "vgpu/cublas/product.hpp"
#include "vgpu/driver/log.hpp"

namespace flashmoe::vgpu::cublas {

Computation computation(int compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return {.scale_type = CUDA_R_16F};
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
      return {.scale_type = CUDA_R_32F};
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
      return {.scale_type = CUDA_R_64F, .sums_in_double = true};
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return {.scale_type = CUDA_R_32I, .sums_in_double = true};  // exact: products are below 2^14
    default:
      return {};
  }
}

bool is_computed(const Computation& how, int a, int b, int c) {
  const auto is_short = [](int type) { return type == CUDA_R_16F || type == CUDA_R_16BF; };
  const auto fits = [&](int type) { return type == CUDA_R_32F || is_short(type); };
  switch (how.scale_type) {
    case CUDA_R_16F:
      return a == CUDA_R_16F && b == CUDA_R_16F && c == CUDA_R_16F;
    case CUDA_R_32F:
      return a == b && (fits(a) || a == CUDA_R_8I) && fits(c) && (a != CUDA_R_32F || c == CUDA_R_32F);
    case CUDA_R_64F:
      return a == CUDA_R_64F && b == CUDA_R_64F && c == CUDA_R_64F;
    case CUDA_R_32I:
      return a == CUDA_R_8I && b == CUDA_R_8I && c == CUDA_R_32I;
    default:
      return false;
  }
}

namespace {

bool is_operation(int op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

// Of the matrix as it lies in memory: columns of `rows` elements.
struct Shape {
  std::int64_t rows = 0, columns = 0;
};

struct Task {
  Gemm asked;
  Computation how;
  Scalar alpha, beta;
  Shape a, b, c;

  // The matrices of the batch; nothing: their pointers cannot be read.
  [[nodiscard]] std::vector<const void*> places(const char* what, const Operand& operand, const Access& access) const {
    std::vector<const void*> found(static_cast<std::size_t>(asked.batch));
    if (asked.by_pointers) {
      if (!access.reads(what, operand.at, found.size() * sizeof(void*))) return {};
      std::memcpy(found.data(), operand.at, found.size() * sizeof(void*));
      return found;
    }
    const auto* const first = static_cast<const std::byte*>(operand.at);
    const auto step = operand.stride * static_cast<std::int64_t>(bytes_of(operand.type));
    for (std::int64_t i = 0; i < asked.batch; ++i) found[static_cast<std::size_t>(i)] = first + i * step;
    return found;
  }

  [[nodiscard]] static bool may_touch(bool writes, const char* what, const Operand& operand, const void* at,
                                      const Shape& shape, const Access& access) {
    const std::size_t element = bytes_of(operand.type);
    const std::size_t row_bytes = static_cast<std::size_t>(shape.rows) * element;
    const std::size_t pitch = static_cast<std::size_t>(operand.ld) * element;
    const auto columns = static_cast<std::size_t>(shape.columns);
    return writes ? access.writes(what, at, row_bytes, columns, pitch)
                  : access.reads(what, at, row_bytes, columns, pitch);
  }

  [[nodiscard]] static Matrix matrix(const Operand& operand, const void* at, int op) {
    Matrix made{.data = at, .type = operand.type, .row_step = 1, .column_step = operand.ld};
    if (op != CUBLAS_OP_N) std::swap(made.row_step, made.column_step);
    return made;
  }

  void operator()(const Access& access) const {
    const auto scale = alpha.value("alpha", access);
    const auto keep = beta.value("beta", access);
    if (!scale || !keep) return;
    const auto as = places("the pointers to A", asked.a, access);
    const auto bs = places("the pointers to B", asked.b, access);
    const auto cs = places("the pointers to C", asked.c, access);
    if (as.empty() || bs.empty() || cs.empty()) return;
    // Documented: what alpha = 0 or beta = 0 leaves out is not read.
    const std::int64_t k = *scale == 0 ? 0 : asked.k;
    for (std::size_t i = 0; i < cs.size(); ++i) {
      if (k != 0 &&
          (!may_touch(false, "A", asked.a, as[i], a, access) || !may_touch(false, "B", asked.b, bs[i], b, access)))
        return;
      if (*keep != 0 && !may_touch(false, "C", asked.c, cs[i], c, access)) return;
      if (!may_touch(true, "C", asked.c, cs[i], c, access)) return;
      multiply({.m = asked.m,
                .n = asked.n,
                .k = k,
                .a = matrix(asked.a, as[i], asked.op_a),
                .b = matrix(asked.b, bs[i], asked.op_b),
                .c = matrix(asked.c, cs[i], CUBLAS_OP_N),
                .d = matrix(asked.c, cs[i], CUBLAS_OP_N),
                .alpha = *scale,
                .beta = *keep,
                .sums_in_double = how.sums_in_double});
    }
  }
};

}  // namespace

cublasStatus_t gemm(const char* name, cublasHandle_t handle, const Gemm& asked) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return answered([&]() -> cublasStatus_t {
    const Shape a = asked.op_a == CUBLAS_OP_N ? Shape{asked.m, asked.k} : Shape{asked.k, asked.m};
    const Shape b = asked.op_b == CUBLAS_OP_N ? Shape{asked.k, asked.n} : Shape{asked.n, asked.k};
    const Shape c{asked.m, asked.n};
    const auto has_room = [](const Operand& operand, const Shape& shape) {
      return operand.ld >= std::max<std::int64_t>(1, shape.rows);
    };
    if (!is_operation(asked.op_a) || !is_operation(asked.op_b) || asked.m < 0 || asked.n < 0 || asked.k < 0 ||
        asked.batch < 0 || !has_room(asked.a, a) || !has_room(asked.b, b) || !has_room(asked.c, c))
      return CUBLAS_STATUS_INVALID_VALUE;
    if (asked.m == 0 || asked.n == 0 || asked.batch == 0) return CUBLAS_STATUS_SUCCESS;
    if (asked.alpha == nullptr || asked.beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const Computation how = computation(asked.compute);
    if (!is_computed(how, asked.a.type, asked.b.type, asked.c.type)) {
      driver::log_once(fmt::format(
          "{} of types {}, {} to {} (cudaDataType) by {} (cublasComputeType_t): CUBLAS_STATUS_NOT_SUPPORTED", name,
          asked.a.type, asked.b.type, asked.c.type, asked.compute));
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return submit(name, handle->stream,
                  Task{asked, how, handle->scalar(how.scale_type, asked.alpha),
                       handle->scalar(how.scale_type, asked.beta), a, b, c});
  });
}

}  // namespace flashmoe::vgpu::cublas
