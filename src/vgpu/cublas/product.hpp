// D = f(alpha * A B + beta * C + bias): the product of two matrices on the CPU, the sums in the order of k.
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::cublas {

// Element (row, column) lies row * row_step + column * column_step elements after the first; a transposed matrix has
// its steps exchanged.
struct Matrix {
  const void* data = nullptr;
  int type = 0;  // cudaDataType
  std::int64_t row_step = 0, column_step = 0;
};

enum class Activation { none, relu, gelu };

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a{}, b{};  // (m, k), (k, n)
  Matrix c{}, d{};  // (m, n); c is not read where beta is 0. They may be the same
  double alpha = 1, beta = 0;
  bool sums_in_double = false;  // else fp32
  const void* bias = nullptr;   // (m), or none
  int bias_type = 0;
  Activation activation = Activation::none;
};

void multiply(const Product& product);

}  // namespace flashmoe::vgpu::cublas
