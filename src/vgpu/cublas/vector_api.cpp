// Vectors: axpy, scal, copy, swap, dot, nrm2, asum, amax, amin; and a matrix with vectors: gemv, ger. Of float and
// double; sums are formed in double.
#include <algorithm>
#include <cmath>
#include <utility>

#include "vgpu/cublas/numbers.hpp"
#include "vgpu/cublas/work.hpp"

namespace flashmoe::vgpu::cublas {
namespace {

template <class T>
constexpr int type_of = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_64F;

// As BLAS counts: with a negative step element 0 is the last in memory.
template <class T>
struct Vector {
  T* at = nullptr;
  std::int64_t n = 0, step = 1;
  T& operator[](std::int64_t i) const { return at[step >= 0 ? i * step : (i - n + 1) * step]; }
  [[nodiscard]] bool reads(const char* what, const Access& access) const {
    return access.reads(what, at, sizeof(T), static_cast<std::size_t>(n), pitch());
  }
  [[nodiscard]] bool writes(const char* what, const Access& access) const {
    return access.writes(what, at, sizeof(T), static_cast<std::size_t>(n), pitch());
  }

 private:
  [[nodiscard]] std::size_t pitch() const { return static_cast<std::size_t>(std::abs(step)) * sizeof(T); }
};

// A number that a function answers: where the caller wants it.
template <class R>
class Answer {
 public:
  Answer(const cublasContext& handle, R* to)
      : to_(to), is_on_device_(handle.pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {}
  void put(const Access& access, R value) const {
    if (!is_on_device_ || access.writes("the result", to_, sizeof(R))) *to_ = value;
  }

 private:
  R* to_;
  bool is_on_device_;
};

template <class T>
cublasStatus_t axpy(const char* name, cublasHandle_t handle, std::int64_t n, const T* alpha, Vector<const T> x,
                    Vector<T> y) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return submit(name, handle->stream, [=, scale = handle->scalar(type_of<T>, alpha)](const Access& access) {
    const auto a = scale.value("alpha", access);
    if (!a || !x.reads("x", access) || !y.reads("y", access) || !y.writes("y", access)) return;
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(*a) * x[i] + y[i];
  });
}

template <class T>
cublasStatus_t scal(const char* name, cublasHandle_t handle, std::int64_t n, const T* alpha, Vector<T> x) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0 || x.step <= 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return submit(name, handle->stream, [=, scale = handle->scalar(type_of<T>, alpha)](const Access& access) {
    const auto a = scale.value("alpha", access);
    if (!a || !x.reads("x", access) || !x.writes("x", access)) return;
    for (std::int64_t i = 0; i < n; ++i) x[i] *= static_cast<T>(*a);
  });
}

template <class T>
cublasStatus_t copy(const char* name, cublasHandle_t handle, std::int64_t n, Vector<const T> x, Vector<T> y) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  return submit(name, handle->stream, [=](const Access& access) {
    if (!x.reads("x", access) || !y.writes("y", access)) return;
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
  });
}

template <class T>
cublasStatus_t swap(const char* name, cublasHandle_t handle, std::int64_t n, Vector<T> x, Vector<T> y) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  return submit(name, handle->stream, [=](const Access& access) {
    if (!x.reads("x", access) || !y.reads("y", access) || !x.writes("x", access) || !y.writes("y", access)) return;
    for (std::int64_t i = 0; i < n; ++i) std::swap(x[i], y[i]);
  });
}

template <class T>
cublasStatus_t dot(const char* name, cublasHandle_t handle, std::int64_t n, Vector<const T> x, Vector<const T> y,
                   T* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return submit(name, handle->stream, [=, answer = Answer<T>(*handle, result)](const Access& access) {
    if (n > 0 && (!x.reads("x", access) || !y.reads("y", access))) return;
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    answer.put(access, static_cast<T>(sum));
  });
}

// Of any types of elements.
struct Elements {
  const void* at = nullptr;
  int type = 0;
  std::int64_t n = 0, step = 1;
  [[nodiscard]] bool reads(const char* what, const Access& access) const {
    const std::size_t bytes = bytes_of(type);
    return access.reads(what, at, bytes, static_cast<std::size_t>(n), static_cast<std::size_t>(std::abs(step)) * bytes);
  }
  [[nodiscard]] double operator[](std::int64_t i) const {
    const std::int64_t place = step >= 0 ? i * step : (i - n + 1) * step;
    return read_scalar(type, static_cast<const std::byte*>(at) + place * static_cast<std::int64_t>(bytes_of(type)));
  }
};
cublasStatus_t dot_ex(const char* name, cublasHandle_t handle, const Elements& x, const Elements& y, void* result,
                      int result_type) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const std::size_t result_bytes = bytes_of(result_type);
  if (bytes_of(x.type) == 0 || bytes_of(y.type) == 0 || result_bytes == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool is_on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  return submit(name, handle->stream, [=](const Access& access) {
    if (x.n > 0 && (!x.reads("x", access) || !y.reads("y", access))) return;
    double sum = 0;
    for (std::int64_t i = 0; i < x.n; ++i) sum += x[i] * y[i];
    if (is_on_device && !access.writes("the result", result, result_bytes)) return;
    write_scalar(result_type, sum, result);
  });
}

// One number of a vector; of nothing it is R{}.
template <class T, class R, class Fold>
cublasStatus_t fold(const char* name, cublasHandle_t handle, Vector<const T> x, R* result, const Fold& of) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return submit(name, handle->stream, [=, answer = Answer<R>(*handle, result)](const Access& access) {
    const bool is_empty = x.n <= 0 || x.step <= 0;
    if (!is_empty && !x.reads("x", access)) return;
    answer.put(access, is_empty ? R{} : static_cast<R>(of(x)));
  });
}
template <class T>
T norm(Vector<const T> x) {
  // Scaled by the largest, so that no square overflows or vanishes.
  double largest = 0, sum = 0;
  for (std::int64_t i = 0; i < x.n; ++i) largest = std::fmax(largest, std::abs(static_cast<double>(x[i])));
  if (largest == 0 || std::isinf(largest)) {
    for (std::int64_t i = 0; i < x.n; ++i) sum += std::abs(static_cast<double>(x[i]));  // 0, infinite or NaN
    return static_cast<T>(sum);
  }
  for (std::int64_t i = 0; i < x.n; ++i) sum += (x[i] / largest) * (x[i] / largest);
  return static_cast<T>(largest * std::sqrt(sum));
}
template <class T>
T absolute_sum(Vector<const T> x) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.n; ++i) sum += std::abs(static_cast<double>(x[i]));
  return static_cast<T>(sum);
}
// The first of the largest (or smallest) in magnitude, counted from 1.
template <bool is_largest, class T>
std::int64_t extreme(Vector<const T> x) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < x.n; ++i) {
    const T one = std::abs(x[i]), other = std::abs(x[best]);
    if (is_largest ? one > other : one < other) best = i;
  }
  return best + 1;
}

template <class T>
cublasStatus_t gemv(const char* name, cublasHandle_t handle, int op, std::int64_t m, std::int64_t n, const T* alpha,
                    const T* a, std::int64_t lda, const T* x, std::int64_t step_x, const T* beta, T* y,
                    std::int64_t step_y) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (op < CUBLAS_OP_N || op > CUBLAS_OP_C || m < 0 || n < 0 || lda < std::max<std::int64_t>(1, m) || step_x == 0 ||
      step_y == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_plain = op == CUBLAS_OP_N;
  const Vector<const T> from{x, is_plain ? n : m, step_x};
  const Vector<T> to{y, is_plain ? m : n, step_y};
  return submit(
      name, handle->stream,
      [=, scale = handle->scalar(type_of<T>, alpha), keep = handle->scalar(type_of<T>, beta)](const Access& access) {
        const auto by = scale.value("alpha", access), old = keep.value("beta", access);
        if (!by || !old) return;
        if (*by != 0 && (!access.reads("A", a, static_cast<std::size_t>(m) * sizeof(T), static_cast<std::size_t>(n),
                                       static_cast<std::size_t>(lda) * sizeof(T)) ||
                         !from.reads("x", access)))
          return;
        if ((*old != 0 && !to.reads("y", access)) || !to.writes("y", access)) return;
        for (std::int64_t i = 0; i < to.n; ++i) {
          double sum = 0;
          for (std::int64_t j = 0; *by != 0 && j < from.n; ++j)
            sum += static_cast<double>(is_plain ? a[i + j * lda] : a[j + i * lda]) * static_cast<double>(from[j]);
          to[i] = static_cast<T>(*by * sum + (*old == 0 ? 0.0 : *old * static_cast<double>(to[i])));
        }
      });
}

template <class T>
cublasStatus_t ger(const char* name, cublasHandle_t handle, std::int64_t m, std::int64_t n, const T* alpha, const T* x,
                   std::int64_t step_x, const T* y, std::int64_t step_y, T* a, std::int64_t lda) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || lda < std::max<std::int64_t>(1, m) || step_x == 0 || step_y == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Vector<const T> column{x, m, step_x}, row{y, n, step_y};
  return submit(name, handle->stream, [=, scale = handle->scalar(type_of<T>, alpha)](const Access& access) {
    const auto by = scale.value("alpha", access);
    const std::size_t bytes = static_cast<std::size_t>(m) * sizeof(T),
                      pitch = static_cast<std::size_t>(lda) * sizeof(T);
    const auto columns = static_cast<std::size_t>(n);
    if (!by || !column.reads("x", access) || !row.reads("y", access) || !access.reads("A", a, bytes, columns, pitch) ||
        !access.writes("A", a, bytes, columns, pitch))
      return;
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) a[i + j * lda] += static_cast<T>(*by) * column[i] * row[j];
  });
}

}  // namespace
}  // namespace flashmoe::vgpu::cublas

namespace blas = flashmoe::vgpu::cublas;

// Count: int, and in the functions of large sizes std::int64_t.
#define VGPU_VECTORS(letter, small, T, Count, suffix)                                                                \
  VGPU_BLAS cublasStatus_t cublas##letter##axpy##suffix(cublasHandle_t handle, Count n, const T* alpha, const T* x,  \
                                                        Count step_x, T* y, Count step_y) {                          \
    return blas::answered([&] {                                                                                      \
      return blas::axpy<T>("cublas" #letter "axpy", handle, n, alpha, {x, n, step_x}, {y, n, step_y});               \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##scal##suffix(cublasHandle_t handle, Count n, const T* alpha, T* x,        \
                                                        Count step_x) {                                              \
    return blas::answered([&] { return blas::scal<T>("cublas" #letter "scal", handle, n, alpha, {x, n, step_x}); }); \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##copy##suffix(cublasHandle_t handle, Count n, const T* x, Count step_x,    \
                                                        T* y, Count step_y) {                                        \
    return blas::answered([&] {                                                                                      \
      return blas::copy<T>("cublas" #letter "copy", handle, n, {x, n, step_x}, {y, n, step_y});                      \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##swap##suffix(cublasHandle_t handle, Count n, T* x, Count step_x, T* y,    \
                                                        Count step_y) {                                              \
    return blas::answered([&] {                                                                                      \
      return blas::swap<T>("cublas" #letter "swap", handle, n, {x, n, step_x}, {y, n, step_y});                      \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##dot##suffix(cublasHandle_t handle, Count n, const T* x, Count step_x,     \
                                                       const T* y, Count step_y, T* result) {                        \
    return blas::answered([&] {                                                                                      \
      return blas::dot<T>("cublas" #letter "dot", handle, n, {x, n, step_x}, {y, n, step_y}, result);                \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##nrm2##suffix(cublasHandle_t handle, Count n, const T* x, Count step_x,    \
                                                        T* result) {                                                 \
    return blas::answered([&] {                                                                                      \
      return blas::fold<T>("cublas" #letter "nrm2", handle, {x, n, step_x}, result, &blas::norm<T>);                 \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##asum##suffix(cublasHandle_t handle, Count n, const T* x, Count step_x,    \
                                                        T* result) {                                                 \
    return blas::answered([&] {                                                                                      \
      return blas::fold<T>("cublas" #letter "asum", handle, {x, n, step_x}, result, &blas::absolute_sum<T>);         \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasI##small##amax##suffix(cublasHandle_t handle, Count n, const T* x, Count step_x,    \
                                                        Count* result) {                                             \
    return blas::answered([&] {                                                                                      \
      return blas::fold<T>("cublasI" #small "amax", handle, {x, n, step_x}, result, &blas::extreme<true, T>);        \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublasI##small##amin##suffix(cublasHandle_t handle, Count n, const T* x, Count step_x,    \
                                                        Count* result) {                                             \
    return blas::answered([&] {                                                                                      \
      return blas::fold<T>("cublasI" #small "amin", handle, {x, n, step_x}, result, &blas::extreme<false, T>);       \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##gemv##suffix(cublasHandle_t handle, int op, Count m, Count n,             \
                                                        const T* alpha, const T* a, Count lda, const T* x,           \
                                                        Count step_x, const T* beta, T* y, Count step_y) {           \
    return blas::answered([&] {                                                                                      \
      return blas::gemv<T>("cublas" #letter "gemv", handle, op, m, n, alpha, a, lda, x, step_x, beta, y, step_y);    \
    });                                                                                                              \
  }                                                                                                                  \
  VGPU_BLAS cublasStatus_t cublas##letter##ger##suffix(cublasHandle_t handle, Count m, Count n, const T* alpha,      \
                                                       const T* x, Count step_x, const T* y, Count step_y, T* a,     \
                                                       Count lda) {                                                  \
    return blas::answered(                                                                                           \
        [&] { return blas::ger<T>("cublas" #letter "ger", handle, m, n, alpha, x, step_x, y, step_y, a, lda); });    \
  }
VGPU_VECTORS(S, s, float, int, _v2)
VGPU_VECTORS(D, d, double, int, _v2)
VGPU_VECTORS(S, s, float, std::int64_t, _v2_64)
VGPU_VECTORS(D, d, double, std::int64_t, _v2_64)
#undef VGPU_VECTORS

#define VGPU_DOT_EX(Count, suffix)                                                                                     \
  VGPU_BLAS cublasStatus_t cublasDotEx##suffix(cublasHandle_t handle, Count n, const void* x, int type_x,              \
                                               Count step_x, const void* y, int type_y, Count step_y, void* result,    \
                                               int result_type, int /*sums*/) {                                        \
    return blas::answered([&] {                                                                                        \
      return blas::dot_ex("cublasDotEx", handle, {x, type_x, n, step_x}, {y, type_y, n, step_y}, result, result_type); \
    });                                                                                                                \
  }
VGPU_DOT_EX(int, )
VGPU_DOT_EX(std::int64_t, _64)
#undef VGPU_DOT_EX
