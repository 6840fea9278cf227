// A program of cuBLAS and cublasLt beside a kernel of its own, compiled with -lcublas and not otherwise prepared:
// products of every kind, vectors, scalars on the device, a captured graph. Exit 0 when all hold.
//     cublas_client --outside | --unset     instead: an operand that ends too early, one that nobody wrote
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "holds.cuh"

#define ANSWERS(call) HOLDS((call) == CUBLAS_STATUS_SUCCESS)

__global__ void add_one(float* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += 1;
}

namespace {

// Small whole numbers: every product and sum of them is exact in all of the types, and so is the comparison.
constexpr int m = 21, n = 13, k = 34, batch = 3;

template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    WORKS(cudaMalloc(&at_, count_ * sizeof(T)));
    WORKS(cudaMemcpy(at_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(at_); }
  T* get() const { return at_; }
  std::vector<T> back() const {
    std::vector<T> values(count_);
    WORKS(cudaMemcpy(values.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* at_ = nullptr;
};

template <class T>
std::vector<T> numbers(int count, int seed) {
  std::vector<T> made;
  for (int i = 0; i < count; ++i) made.push_back(T(float((i * 7 + seed) % 5 - 2)));
  return made;
}

// alpha * op(A) op(B) + beta * C by its definition, column-major.
template <class T, class R>
bool is_product(const std::vector<T>& a, bool a_transposed, const std::vector<T>& b, bool b_transposed,
                const std::vector<R>& before, const std::vector<R>& after, float alpha, float beta, int first = 0) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float sum = 0;
      for (int p = 0; p < k; ++p)
        sum += float(a[first * m * k + (a_transposed ? i * k + p : p * m + i)]) *
               float(b[first * k * n + (b_transposed ? p * n + j : j * k + p)]);
      const int at = first * m * n + j * m + i;
      if (float(after[at]) != float(R(alpha * sum + beta * float(before[at])))) return false;
    }
  return true;
}

void products(cublasHandle_t blas) {
  const auto a = numbers<float>(m * k, 1), b = numbers<float>(k * n, 2), c = numbers<float>(m * n, 3);
  const OnDevice<float> da(a), db(b);
  const float alpha = 2, beta = -1;
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true}) {
      const OnDevice<float> dc(c);
      ANSWERS(cublasSgemm(blas, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, m,
                          n, k, &alpha, da.get(), a_transposed ? k : m, db.get(), b_transposed ? n : k, &beta, dc.get(),
                          m));
      HOLDS(is_product(a, a_transposed, b, b_transposed, c, dc.back(), alpha, beta));
    }
  const auto wide_a = numbers<double>(m * k, 1), wide_b = numbers<double>(k * n, 2), wide_c = numbers<double>(m * n, 3);
  const OnDevice<double> wa(wide_a), wb(wide_b), wc(wide_c);
  const double wide_alpha = 1, wide_beta = 1;
  ANSWERS(cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &wide_alpha, wa.get(), m, wb.get(), k, &wide_beta,
                      wc.get(), m));
  HOLDS(is_product(wide_a, false, wide_b, false, wide_c, wc.back(), 1, 1));
  HOLDS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da.get(), m - 1, db.get(), k, &beta, nullptr, m) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

template <class T>
void short_products(cublasHandle_t blas, cudaDataType type) {
  const auto a = numbers<T>(batch * m * k, 1), b = numbers<T>(batch * k * n, 2), c = numbers<T>(batch * m * n, 3);
  const OnDevice<T> da(a), db(b), dc(c);
  const float alpha = 1, beta = 1;
  ANSWERS(cublasGemmStridedBatchedEx(blas, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &alpha, da.get(), type, m, m * k,
                                     db.get(), type, n, k * n, &beta, dc.get(), type, m, m * n, batch,
                                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  for (int i = 0; i < batch; ++i) HOLDS(is_product(a, false, b, true, c, dc.back(), 1, 1, i));
  const OnDevice<float> wide(numbers<float>(m * n, 0));
  const float none = 0;
  ANSWERS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da.get(), type, m, db.get(), type, k, &none,
                       wide.get(), CUDA_R_32F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  HOLDS(is_product(a, false, b, false, std::vector<float>(m * n), wide.back(), 1, 0));
}

void behind_pointers(cublasHandle_t blas) {
  const auto a = numbers<float>(batch * m * k, 1), b = numbers<float>(batch * k * n, 2),
             c = numbers<float>(batch * m * n, 3);
  const OnDevice<float> da(a), db(b), dc(c);
  std::vector<const float*> as, bs;
  std::vector<float*> cs;
  for (int i = 0; i < batch; ++i) {
    as.push_back(da.get() + i * m * k);
    bs.push_back(db.get() + i * k * n);
    cs.push_back(dc.get() + i * m * n);
  }
  const OnDevice<const float*> pa(as), pb(bs);
  const OnDevice<float*> pc(cs);
  const OnDevice<float> scalars({3, 1});
  ANSWERS(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
  ANSWERS(cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, scalars.get(), pa.get(), m, pb.get(), k,
                             scalars.get() + 1, pc.get(), m, batch));
  ANSWERS(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
  for (int i = 0; i < batch; ++i) HOLDS(is_product(a, false, b, false, c, dc.back(), 3, 1, i));
}

void vectors(cublasHandle_t blas) {
  const OnDevice<float> x({3, 4, -12}), y({1, 2, 3}), a({1, 2, 3, 4, 5, 6});
  const float two = 2, zero = 0, one = 1;
  float result = 0;
  int place = 0;
  ANSWERS(cublasSnrm2(blas, 3, x.get(), 1, &result));
  HOLDS(result == 13);
  ANSWERS(cublasSdot(blas, 3, x.get(), 1, y.get(), -1, &result));  // 3*3 + 4*2 - 12*1
  HOLDS(result == 5);
  ANSWERS(cublasSasum(blas, 3, x.get(), 1, &result));
  HOLDS(result == 19);
  ANSWERS(cublasIsamax(blas, 3, x.get(), 1, &place));
  HOLDS(place == 3);
  ANSWERS(cublasSaxpy(blas, 3, &two, x.get(), 1, y.get(), 1));
  HOLDS(y.back() == (std::vector<float>{7, 10, -21}));
  ANSWERS(cublasSscal(blas, 2, &two, y.get(), 2));
  HOLDS(y.back() == (std::vector<float>{14, 10, -42}));
  const OnDevice<float> out({9, 9, 9});
  ANSWERS(
      cublasSgemv(blas, CUBLAS_OP_T, 2, 3, &one, a.get(), 2, x.get(), 1, &zero, out.get(), 1));  // (3, 4) by columns
  HOLDS(out.back() == (std::vector<float>{11, 25, 39}));
  ANSWERS(cublasSger(blas, 2, 3, &one, x.get(), 1, y.get(), 1, a.get(), 2));
  HOLDS(a.back() == (std::vector<float>{43, 58, 33, 44, -121, -162}));
}

void with_bias(cudaStream_t stream) {
  const auto a = numbers<__half>(m * k, 1), b = numbers<__half>(k * n, 2), bias = numbers<__half>(m, 4);
  const OnDevice<__half> da(a), db(b), dbias(bias), dd(numbers<__half>(m * n, 0));
  cublasLtHandle_t lt = nullptr;
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t la = nullptr, lb = nullptr, ld = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  ANSWERS(cublasLtCreate(&lt));
  ANSWERS(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  const __half* const place = dbias.get();
  ANSWERS(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  ANSWERS(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &place, sizeof place));
  ANSWERS(cublasLtMatrixLayoutCreate(&la, CUDA_R_16F, m, k, m));
  ANSWERS(cublasLtMatrixLayoutCreate(&lb, CUDA_R_16F, k, n, k));
  ANSWERS(cublasLtMatrixLayoutCreate(&ld, CUDA_R_16F, m, n, m));
  ANSWERS(cublasLtMatmulPreferenceCreate(&preference));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  ANSWERS(cublasLtMatmulAlgoGetHeuristic(lt, matmul, la, lb, ld, ld, preference, 1, &found, &count));
  HOLDS(count == 1);
  const float alpha = 1, beta = 0;
  ANSWERS(cublasLtMatmul(lt, matmul, &alpha, da.get(), la, db.get(), lb, &beta, dd.get(), ld, dd.get(), ld, &found.algo,
                         nullptr, 0, stream));
  const auto after = dd.back();
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float sum = float(bias[i]);
      for (int p = 0; p < k; ++p) sum += float(a[p * m + i]) * float(b[j * k + p]);
      HOLDS(float(after[j * m + i]) == std::fmax(sum, 0.0F));
    }
  // What it does not compute it says so.
  const cublasLtEpilogue_t other = CUBLASLT_EPILOGUE_DGELU;
  ANSWERS(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &other, sizeof other));
  HOLDS(cublasLtMatmulAlgoGetHeuristic(lt, matmul, la, lb, ld, ld, preference, 1, &found, &count) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatmulPreferenceDestroy(preference);
  for (const auto layout : {la, lb, ld}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(matmul);
  ANSWERS(cublasLtDestroy(lt));
}

// Captured between kernels, and done with them, in their order.
void in_a_graph(cublasHandle_t blas) {
  const auto a = numbers<float>(m * k, 1), b = numbers<float>(k * n, 2);
  auto one_more = a;
  for (float& one : one_more) one += 1;
  const OnDevice<float> da(a), db(b), dc(std::vector<float>(m * n));
  const float alpha = 1, beta = 0;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  WORKS(cudaStreamCreate(&stream));
  WORKS(cudaEventCreate(&begin));
  WORKS(cudaEventCreate(&end));
  ANSWERS(cublasSetStream(blas, stream));
  WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add_one<<<(m * k + 127) / 128, 128, 0, stream>>>(da.get(), m * k);
  ANSWERS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da.get(), m, db.get(), k, &beta, dc.get(), m));
  WORKS(cudaStreamEndCapture(stream, &graph));
  WORKS(cudaGraphInstantiate(&executable, graph, 0));
  WORKS(cudaGraphDestroy(graph));
  HOLDS(dc.back() == std::vector<float>(m * n));
  WORKS(cudaEventRecord(begin, stream));
  WORKS(cudaGraphLaunch(executable, stream));
  WORKS(cudaEventRecord(end, stream));
  WORKS(cudaStreamSynchronize(stream));
  HOLDS(is_product(one_more, false, b, false, std::vector<float>(m * n), dc.back(), 1, 0));
  float milliseconds = 0;
  WORKS(cudaEventElapsedTime(&milliseconds, begin, end));
  HOLDS(milliseconds > 0);
  WORKS(cudaGraphExecDestroy(executable));
  ANSWERS(cublasSetStream(blas, nullptr));
  WORKS(cudaEventDestroy(begin));
  WORKS(cudaEventDestroy(end));
  WORKS(cudaStreamDestroy(stream));
}

// B has a column less than it is said to have, or one that nobody wrote.
int wrong(cublasHandle_t blas, bool is_outside) {
  const OnDevice<float> da(numbers<float>(m * k, 1)), dc(numbers<float>(m * n, 3));
  float* b = nullptr;
  const float alpha = 1, beta = 0;
  WORKS(cudaMalloc(&b, sizeof(float) * k * (is_outside ? n - 1 : n)));
  WORKS(cudaMemset(b, 0, sizeof(float) * k * (n - 1)));
  ANSWERS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da.get(), m, b, k, &beta, dc.get(), m));
  return cudaDeviceSynchronize() == (is_outside ? cudaErrorIllegalAddress : cudaSuccess) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  cublasHandle_t blas = nullptr;
  ANSWERS(cublasCreate(&blas));
  if (argc > 1) return wrong(blas, std::strcmp(argv[1], "--outside") == 0);
  products(blas);
  short_products<__half>(blas, CUDA_R_16F);
  short_products<__nv_bfloat16>(blas, CUDA_R_16BF);
  behind_pointers(blas);
  vectors(blas);
  with_bias(nullptr);
  in_a_graph(blas);
  HOLDS(cublasSsyrk(blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 1, 1, nullptr, nullptr, 1, nullptr, nullptr, 1) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  HOLDS(std::strcmp(cublasGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED") == 0);
  ANSWERS(cublasDestroy(blas));
  return 0;
}
