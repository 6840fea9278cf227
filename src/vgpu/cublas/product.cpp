#include "vgpu/cublas/product.hpp"

#include <algorithm>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <vector>

#include "vgpu/cublas/numbers.hpp"

namespace flashmoe::vgpu::cublas {
namespace {

// A block of D is one vector of rows by as many columns as leave room in sixteen registers of AVX2.
constexpr std::size_t vector_bytes = 64;
constexpr std::int64_t block_columns = 6;
template <class T>
constexpr std::int64_t block_rows = vector_bytes / sizeof(T);

template <class T>
struct Block {
  T sum[block_columns][block_rows<T>];
};

// a: (k, block_rows), b: (k, block_columns).
template <class T>
[[gnu::always_inline]] inline void multiply_block(std::int64_t k, const T* a, const T* b, Block<T>& out) {
  using Vector [[gnu::vector_size(vector_bytes)]] = T;
  Vector sums[block_columns]{};
  for (std::int64_t p = 0; p < k; ++p) {
    Vector rows;
    std::memcpy(&rows, a + p * block_rows<T>, sizeof rows);
    for (std::int64_t j = 0; j < block_columns; ++j) sums[j] += rows * b[p * block_columns + j];
  }
  std::memcpy(out.sum, sums, sizeof sums);
}

// The same for the instruction sets that a host may have, and the same bits: products are rounded before they are
// added.
namespace baseline {
template <class T>
void multiply(std::int64_t k, const T* a, const T* b, Block<T>& out) {
  multiply_block(k, a, b, out);
}
}  // namespace baseline
namespace avx2 {
template <class T>
[[gnu::target("avx2")]] void multiply(std::int64_t k, const T* a, const T* b, Block<T>& out) {
  multiply_block(k, a, b, out);
}
}  // namespace avx2
namespace avx512 {
template <class T>
[[gnu::target("avx512f")]] void multiply(std::int64_t k, const T* a, const T* b, Block<T>& out) {
  multiply_block(k, a, b, out);
}
}  // namespace avx512
template <class T>
auto best_multiply() {
  if (__builtin_cpu_supports("avx512f")) return &avx512::multiply<T>;
  if (__builtin_cpu_supports("avx2")) return &avx2::multiply<T>;
  return &baseline::multiply<T>;
}

// (count, k) elements from `first` on, as (k, width); what is beyond is 0. Steps from one of the count to the next, and
// from one of k to the next.
template <class T>
void pack(const Matrix& from, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t step,
          std::int64_t k_step, std::int64_t width, T* to) {
  with_type(from.type, [&](auto* tag) {
    const auto* const data = static_cast<const std::remove_pointer_t<decltype(tag)>*>(from.data) + first * step;
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t i = 0; i < width; ++i)
        to[p * width + i] = i < count ? static_cast<T>(number(data[i * step + p * k_step])) : T{0};
  });
}

template <class T>
T activate(T x, Activation how) {
  switch (how) {
    case Activation::relu:
      return x < T{0} ? T{0} : x;  // NaN stays
    case Activation::gelu: {
      // cublasLt.h: the approximation by tanh.
      const auto inner = std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T> * (x + T(0.044715) * x * x * x);
      return T(0.5) * x * (T{1} + std::tanh(inner));
    }
    case Activation::none:
      break;
  }
  return x;
}

template <class T>
void finish(const Product& product, const Block<T>& block, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns) {
  const T alpha = static_cast<T>(product.alpha), beta = static_cast<T>(product.beta);
  T offset[block_rows<T>]{};
  if (product.bias != nullptr) {
    with_type(product.bias_type, [&](auto* tag) {
      const auto* const bias = static_cast<const std::remove_pointer_t<decltype(tag)>*>(product.bias) + row;
      for (std::int64_t i = 0; i < rows; ++i) offset[i] = static_cast<T>(number(bias[i]));
    });
  }
  const auto place = [&](const Matrix& matrix, std::int64_t i, std::int64_t j) {
    return (row + i) * matrix.row_step + (column + j) * matrix.column_step;
  };
  T result[block_columns][block_rows<T>];
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) result[j][i] = alpha * block.sum[j][i];
  if (beta != T{0}) {
    with_type(product.c.type, [&](auto* tag) {
      const auto* const c = static_cast<const std::remove_pointer_t<decltype(tag)>*>(product.c.data);
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t i = 0; i < rows; ++i)
          result[j][i] += beta * static_cast<T>(number(c[place(product.c, i, j)]));
    });
  }
  with_type(product.d.type, [&](auto* tag) {
    auto* const d = static_cast<decltype(tag)>(const_cast<void*>(product.d.data));
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < rows; ++i)
        put(activate(static_cast<T>(result[j][i] + offset[i]), product.activation), d[place(product.d, i, j)]);
  });
}

template <class T>
void multiply_in(const Product& product) {
  static const auto multiply_one = best_multiply<T>();
  const std::int64_t m = product.m, n = product.n, k = product.k;
  const std::int64_t panels = (n + block_columns - 1) / block_columns;
  std::vector<T> a(static_cast<std::size_t>(k * block_rows<T>));
  std::vector<T> b(static_cast<std::size_t>(panels * k * block_columns));
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t column = panel * block_columns;
    pack(product.b, column, std::min(block_columns, n - column), k, product.b.column_step, product.b.row_step,
         block_columns, b.data() + panel * k * block_columns);
  }
  Block<T> block;
  for (std::int64_t row = 0; row < m; row += block_rows<T>) {
    const std::int64_t rows = std::min(block_rows<T>, m - row);
    pack(product.a, row, rows, k, product.a.row_step, product.a.column_step, block_rows<T>, a.data());
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t column = panel * block_columns;
      multiply_one(k, a.data(), b.data() + panel * k * block_columns, block);
      finish(product, block, row, rows, column, std::min(block_columns, n - column));
    }
  }
}

}  // namespace

void multiply(const Product& product) {
  if (product.sums_in_double)
    multiply_in<double>(product);
  else
    multiply_in<float>(product);
}

}  // namespace flashmoe::vgpu::cublas
