// Tensor cores as <mma.h> has them: every shape and type that is executed, both layouts of A, B, C and D, with strides,
// from global and from shared memory. All numbers are whole and small, so that any order of summation is exact, and the
// host's integers judge. Exit 0 when all hold.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <type_traits>
#include <vector>

#include "holds.cuh"

using namespace nvcuda;

template <class In>
struct Stored {  // how an element of the fragment lies in memory
  using type = In;
};
template <>
struct Stored<wmma::precision::tf32> {
  using type = float;
};

template <int m, int n, int k, class In, class Sum, class LayoutA, class LayoutB, bool sums_by_row>
struct Case {
  using T = typename Stored<In>::type;
  static constexpr bool a_by_row = std::is_same_v<LayoutA, wmma::row_major>;
  static constexpr bool b_by_row = std::is_same_v<LayoutB, wmma::row_major>;
  // Rows are further apart than they are long, by the 16 bytes that a stride is a multiple of.
  static constexpr int stride_a = (a_by_row ? k : m) + 16 / sizeof(T);
  static constexpr int stride_b = (b_by_row ? n : k) + 16 / sizeof(T);
  static constexpr int stride_c = (sums_by_row ? n : m) + 16 / sizeof(Sum);
  static constexpr int size_a = (a_by_row ? m : k) * stride_a;
  static constexpr int size_b = (b_by_row ? k : n) * stride_b;
  static constexpr int size_c = (sums_by_row ? m : n) * stride_c;
  static __host__ __device__ int at_a(int i, int j) { return a_by_row ? i * stride_a + j : j * stride_a + i; }
  static __host__ __device__ int at_b(int i, int j) { return b_by_row ? i * stride_b + j : j * stride_b + i; }
  static __host__ __device__ int at_c(int i, int j) { return sums_by_row ? i * stride_c + j : j * stride_c + i; }

  using A = wmma::fragment<wmma::matrix_a, m, n, k, In, LayoutA>;
  using B = wmma::fragment<wmma::matrix_b, m, n, k, In, LayoutB>;
  using C = wmma::fragment<wmma::accumulator, m, n, k, Sum>;
  static constexpr auto order = sums_by_row ? wmma::mem_row_major : wmma::mem_col_major;
};

// d = 2 (a b + c), then once more from shared memory: e = a b + d.
template <class Case, class T, class Sum>
__global__ void multiply(const T* a, const T* b, const Sum* c, Sum* d, Sum* e) {
  __shared__ __align__(128) T shared_a[Case::size_a], shared_b[Case::size_b];
  __shared__ __align__(128) Sum shared_c[Case::size_c];
  typename Case::A first;
  typename Case::B second;
  typename Case::C sum;
  wmma::load_matrix_sync(first, a, Case::stride_a);
  wmma::load_matrix_sync(second, b, Case::stride_b);
  wmma::load_matrix_sync(sum, c, Case::stride_c, Case::order);
  wmma::mma_sync(sum, first, second, sum);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + sum.x[i];
  wmma::store_matrix_sync(d, sum, Case::stride_c, Case::order);
  wmma::store_matrix_sync(shared_c, sum, Case::stride_c, Case::order);
  for (int i = threadIdx.x; i < Case::size_a; i += 32) shared_a[i] = a[i];
  for (int i = threadIdx.x; i < Case::size_b; i += 32) shared_b[i] = b[i];
  __syncthreads();
  wmma::load_matrix_sync(first, shared_a, Case::stride_a);
  wmma::load_matrix_sync(second, shared_b, Case::stride_b);
  wmma::load_matrix_sync(sum, shared_c, Case::stride_c, Case::order);
  wmma::mma_sync(sum, first, second, sum);
  wmma::store_matrix_sync(e, sum, Case::stride_c, Case::order);
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* copy = nullptr;
  WORKS(cudaMalloc(&copy, values.size() * sizeof(T)));
  WORKS(cudaMemcpy(copy, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return copy;
}

int cases = 0;

template <int m, int n, int k, class In, class Sum, class LayoutA, class LayoutB, bool sums_by_row>
void run() {
  using This = Case<m, n, k, In, Sum, LayoutA, LayoutB, sums_by_row>;
  using T = typename This::T;
  const int least = std::is_unsigned_v<T> ? 0 : -3;
  unsigned state = 1;
  const auto next = [&] { return least + static_cast<int>((state = state * 1664525u + 1013904223u) >> 24) % 7; };
  // What lies between the rows spoils every sum that it gets into.
  std::vector<T> a(This::size_a, T(100)), b(This::size_b, T(100));
  std::vector<Sum> c(This::size_c, Sum(100)), d = c, e = c;
  std::vector<int> of_a(m * k), of_b(k * n), of_c(m * n);
  for (int i = 0; i < m * k; ++i) a[This::at_a(i / k, i % k)] = T(static_cast<float>(of_a[i] = next()));
  for (int i = 0; i < k * n; ++i) b[This::at_b(i / n, i % n)] = T(static_cast<float>(of_b[i] = next()));
  for (int i = 0; i < m * n; ++i) c[This::at_c(i / n, i % n)] = Sum(static_cast<float>(of_c[i] = next()));
  T *const device_a = on_device(a), *const device_b = on_device(b);
  Sum *const device_c = on_device(c), *const device_d = on_device(d), *const device_e = on_device(e);
  multiply<This><<<1, 32>>>(device_a, device_b, device_c, device_d, device_e);
  WORKS(cudaDeviceSynchronize());
  WORKS(cudaMemcpy(d.data(), device_d, d.size() * sizeof(Sum), cudaMemcpyDeviceToHost));
  WORKS(cudaMemcpy(e.data(), device_e, e.size() * sizeof(Sum), cudaMemcpyDeviceToHost));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      int product = 0;
      for (int l = 0; l < k; ++l) product += of_a[i * k + l] * of_b[l * n + j];
      const int twice = 2 * (product + of_c[i * n + j]);
      HOLDS(static_cast<float>(d[This::at_c(i, j)]) == static_cast<float>(twice));
      HOLDS(static_cast<float>(e[This::at_c(i, j)]) == static_cast<float>(product + twice));
    }
  }
  for (void* one : {(void*)device_a, (void*)device_b, (void*)device_c, (void*)device_d, (void*)device_e})
    WORKS(cudaFree(one));
  ++cases;
}

template <int m, int n, int k, class In, class Sum>
void layouts() {
  using row = wmma::row_major;
  using column = wmma::col_major;
  run<m, n, k, In, Sum, row, row, true>();
  run<m, n, k, In, Sum, row, column, false>();
  run<m, n, k, In, Sum, column, row, false>();
  run<m, n, k, In, Sum, column, column, true>();
}

template <class In, class Sum>
void shapes() {
  layouts<16, 16, 16, In, Sum>();
  layouts<32, 8, 16, In, Sum>();
  layouts<8, 32, 16, In, Sum>();
}

// Clamped, as the last argument of mma_sync asks for; without it the sum wraps around.
__global__ void clamp(int* sums) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
  wmma::fill_fragment(a, 100);
  wmma::fill_fragment(b, 100);
  for (const bool clamps : {false, true}) {
    wmma::fill_fragment(sum, 0x7fffffff);
    if (clamps)
      wmma::mma_sync(sum, a, b, sum, true);
    else
      wmma::mma_sync(sum, a, b, sum);
    wmma::store_matrix_sync(sums + 256 * clamps, sum, 16, wmma::mem_row_major);
  }
}

int main() {
  shapes<half, float>();
  shapes<half, half>();
  shapes<__nv_bfloat16, float>();
  shapes<signed char, int>();
  shapes<unsigned char, int>();
  layouts<16, 16, 8, wmma::precision::tf32, float>();
  layouts<8, 8, 4, double, double>();
  std::vector<int> sums(512);
  int* const device = on_device(sums);
  clamp<<<1, 32>>>(device);
  WORKS(cudaMemcpy(sums.data(), device, sums.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 256; ++i)
    HOLDS(sums[i] == static_cast<int>(0x7fffffffu + 160000u) && sums[256 + i] == 0x7fffffff);
  WORKS(cudaFree(device));
  std::printf("%d products\n", cases);
}
