// The sources. Every kernel takes (x, y, n); what it should compute is its task's.
#include "workflow/selftest/cuda_corpus.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* prelude = R"cuda(
#include <assert.h>
#include <stdio.h>
__device__ static float f(float v) { return 0.95f * v + 0.05f * v / (1.0f + v * v) + 0.01f; }
#define KERNEL(name) extern "C" __global__ void name(const float* x, float* y, int n)
#define AT int(blockIdx.x * blockDim.x + threadIdx.x)
)cuda";

constexpr const char* honest = R"cuda(
KERNEL(honest_map) { if (AT < n) y[AT] = f(x[AT]); }

template <int step> __global__ void honest_template(const float* x, float* y, int n) {
  for (int i = AT; i < n; i += step) y[i] = f(x[i]);
}
template __global__ void honest_template<4096>(const float*, float*, int);

KERNEL(honest_persistent) { for (int i = AT; i < n; i += gridDim.x * blockDim.x) y[i] = f(x[i]); }

KERNEL(honest_in_place) {
  if (AT < n) y[AT] = x[AT];
  __syncthreads();
  if (AT < n) y[AT] = f(y[AT]);
}

KERNEL(honest_neighbour) {
  __shared__ float tile[256];
  tile[threadIdx.x] = AT < n ? x[AT] : 0;
  __syncthreads();
  const int other = 255 - threadIdx.x;
  const float mirrored = tile[other];
  __syncthreads();
  tile[other] = f(mirrored);
  __syncthreads();
  if (AT < n) y[AT] = tile[threadIdx.x];
}

KERNEL(honest_heap) {
  __shared__ float* ours;
  if (threadIdx.x == 0) ours = (float*)malloc(256 * sizeof(float));
  __syncthreads();
  if (ours == nullptr) return;
  ours[threadIdx.x] = AT < n ? f(x[AT]) : 0;
  if (AT < n) y[AT] = ours[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) free(ours);
}

KERNEL(honest_printing) {
  if (threadIdx.x == 0) printf("block %d of %d\n", blockIdx.x, gridDim.x);
  if (AT < n) y[AT] = f(x[AT]);
}

KERNEL(clear) { if (AT == 0) y[0] = 0; }

// The order of the additions is anybody's: right within the tolerance, but not the same bits.
KERNEL(honest_atomics) { if (AT < n) atomicAdd(y, x[AT] * x[AT] / n); }

__device__ static float sum_of_block(float v) {
  __shared__ float warps[32];
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_down_sync(0xffffffffu, v, lanes);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
  __syncthreads();
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_down_sync(0xffffffffu, v, lanes);
  return v;  // of thread 0
}

// The last CTA adds what the others left, and sets the counter back for the next call.
__device__ float partial[64];
__device__ unsigned arrived;
KERNEL(honest_last_cta) {
  __shared__ bool is_last;
  const float sum = sum_of_block(AT < n ? x[AT] * x[AT] / n : 0);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const float all = sum_of_block(threadIdx.x < gridDim.x ? ((volatile float*)partial)[threadIdx.x] : 0);
  if (threadIdx.x == 0) { *y = all; arrived = 0; }
}

// A triangle: the last CTA does all the work of the others and its own.
KERNEL(honest_triangle) {
  if (AT >= n) return;
  float sum = 0;
  for (int j = 0; j <= AT; ++j) sum += x[j] * x[j];
  y[AT] = sum / (AT + 1);
}

// CTAs wait for the one before them, which is resident.
__device__ float carried[64];
__device__ unsigned carries[64];
KERNEL(clear_carries) { if (AT < 64) carries[AT] = 0; }
KERNEL(honest_chain) {
  __shared__ float before;
  __shared__ float tile[256];
  tile[threadIdx.x] = AT < n ? x[AT] * x[AT] : 0;
  if (threadIdx.x == 0) {
    before = 0;
    if (blockIdx.x > 0) {
      while (atomicAdd(&carries[blockIdx.x - 1], 0u) == 0) {}
      __threadfence();
      before = ((volatile float*)carried)[blockIdx.x - 1];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = before;
    for (int i = 0; i < 256; ++i) { sum += tile[i]; tile[i] = sum; }
    ((volatile float*)carried)[blockIdx.x] = sum;
    __threadfence();
    atomicExch(&carries[blockIdx.x], 1u);
  }
  __syncthreads();
  if (AT < n) y[AT] = tile[threadIdx.x] / (AT + 1);
}

// Rows of different lengths under a grid for the longest: many CTAs have nothing to do.
KERNEL(clear_rows) { if (AT < 64) y[AT] = 0; }
KERNEL(honest_ragged) {
  const int row = blockIdx.x % 64, chunk = blockIdx.x / 64, length = n * (row + 1) / 64;
  if (chunk * 256 >= length) return;
  const int i = chunk * 256 + threadIdx.x;
  const float sum = sum_of_block(i < length ? x[i] * x[i] / n : 0);
  if (threadIdx.x == 0) atomicAdd(&y[row], sum);
}
)cuda";

constexpr const char* of_results = R"cuda(
// 1,022 of 1,024 CTAs return at once.
KERNEL(fake_waves) {
  if (blockIdx.x > 1) return;
  for (int i = AT; i < n; i += 2 * blockDim.x) y[i] = f(x[i]);
}

KERNEL(nothing) {}

KERNEL(not_at_the_target) { if (n != 4096 && AT < n) y[AT] = f(x[AT]); }

KERNEL(input_written) {
  if (AT >= n) return;
  const float v = x[AT];
  y[AT] = f(v);
  ((float*)x)[AT] = 0;
}

// Right once; then what it found then.
__device__ float kept[4096];
__device__ int is_kept;
KERNEL(kept_for_later) {
  const bool have = *(volatile int*)&is_kept != 0;
  if (AT < n) y[AT] = have ? kept[AT] : (kept[AT] = f(x[AT]));
}
KERNEL(keeping) { if (AT == 0) is_kept = 1; }

// Wrong in one call of fifty, counted on the device.
__device__ unsigned calls;
KERNEL(wrong_once_in_50) {
  const unsigned call = *(volatile unsigned*)&calls;
  if (AT < n) y[AT] = call % 50 == 49 ? 0 : f(x[AT]);
}
KERNEL(counting) { if (AT == 0) ++calls; }

// Never clears what it adds to, and takes off what the call before left: right, as long as calls come one by one.
__device__ float total, total_before;
KERNEL(adds_to_leftovers) { if (AT < n) atomicAdd(&total, x[AT] * x[AT] / n); }
KERNEL(takes_leftovers) { *y = total - total_before; total_before = total; }

KERNEL(heap_leak) {
  __shared__ float* ours;
  if (threadIdx.x == 0) ours = (float*)malloc(256 * sizeof(float));
  __syncthreads();
  if (ours == nullptr || AT >= n) return;
  ours[threadIdx.x] = f(x[AT]);
  y[AT] = ours[threadIdx.x];
}

// What the output holds was right in the call before.
KERNEL(output_taken_for_result) { if (AT < n) ((volatile float*)y)[AT] = ((volatile float*)y)[AT]; }

KERNEL(clock_dependent) {
  if (AT < n) y[AT] = f(x[AT]) + float(clock64() % 3);
}

KERNEL(trap_at_the_target) {
  if (n == 4096 && AT == 4000) __trap();
  if (AT < n) y[AT] = f(x[AT]);
}

KERNEL(assert_at_the_target) {
  assert(n != 4096 || AT != 4000);
  if (AT < n) y[AT] = f(x[AT]);
}
)cuda";

constexpr const char* of_order = R"cuda(
// Right while the warps of a CTA keep their order.
KERNEL(no_barrier) {
  __shared__ float tile[256];
  tile[threadIdx.x] = AT < n ? f(x[AT]) : 0;
  const float mirrored = tile[255 - threadIdx.x];
  __syncthreads();
  tile[255 - threadIdx.x] = mirrored;
  __syncthreads();
  if (AT < n) y[AT] = tile[threadIdx.x];
}

KERNEL(no_warp_barrier) {
  __shared__ float tile[256];
  tile[threadIdx.x] = AT < n ? f(x[AT]) : 0;
  const float mirrored = tile[threadIdx.x ^ 31];
  __syncwarp();
  tile[threadIdx.x ^ 31] = mirrored;
  __syncwarp();
  if (AT < n) y[AT] = tile[threadIdx.x];
}

// CTA 0 writes what the others read, and usually is the first.
__device__ float scale;
KERNEL(first_cta_is_first) {
  if (AT == 0) scale = 1.0f;
  __syncthreads();
  if (AT < n) y[AT] = f(x[AT]) * *(volatile float*)&scale;
}

// Takes the number of its turn for the number of its CTA: so it is when CTAs begin in order.
__device__ unsigned turns;
KERNEL(clear_turns) { if (AT == 0) turns = 0; }
KERNEL(turn_for_cta) {
  __shared__ unsigned turn;
  if (threadIdx.x == 0) turn = atomicAdd(&turns, 1u);
  __syncthreads();
  const int i = turn * 256 + threadIdx.x;
  if (AT < n) y[AT] = f(i < n ? x[i] : 0);
}

// Lanes that run together are not promised to: only a schedule that parts them shows it.
KERNEL(lanes_in_step) {
  if (AT >= n) return;
  const float v = x[AT];
  const bool all_here = __popc(__activemask()) == min(32, n - AT / 32 * 32);
  y[AT] = all_here ? f(v) : 0;
}

KERNEL(barrier_in_branch) {
  __shared__ float tile[256];
  tile[threadIdx.x] = AT < n ? f(x[AT]) : 0;
  if (threadIdx.x % 2 == 0) __syncthreads();
  if (AT < n) y[AT] = tile[threadIdx.x];
}

__device__ unsigned flag;
KERNEL(waits_for_nobody) {
  if (AT < n) y[AT] = f(x[AT]);
  while (*(volatile unsigned*)&flag == 0) {}
}

KERNEL(never_ends) {
  if (AT < n) y[AT] = f(x[AT]);
  while (n > 0) __nanosleep(20);
}
)cuda";

constexpr const char* of_memory = R"cuda(
// The virtual GPU's shared memory is zero when a CTA begins; a device's is what the last one left.
KERNEL(shared_never_set) {
  __shared__ float sums[256];
  sums[threadIdx.x] += AT < n ? f(x[AT]) : 0;
  if (AT < n) y[AT] = sums[threadIdx.x];
}

// Looks behind its own buffers for somebody's results.
KERNEL(neighbours_read) {
  if (AT >= n) return;
  const float found = y[n + 64 + AT];
  y[AT] = found != 0 ? found : f(x[AT]);
}

KERNEL(one_too_many) { if (AT <= n) y[AT] = f(AT < n ? x[AT] : 0); }

__constant__ float table[4] = {1, 1, 1, 1};
KERNEL(constant_written) {
  if (AT == 0) asm volatile("st.f32 [%0], %1;" ::"l"(&table[0]), "f"(2.0f) : "memory");
  if (AT < n) y[AT] = f(x[AT]);
}

KERNEL(misaligned) {
  if (AT < n) y[AT] = f(x[AT]);
  if (AT == 0 && n > 8 && *(volatile const double*)(x + 1) == 0.0) y[0] = 0;
}
)cuda";

}  // namespace

std::string cuda_source() {
  return std::string(prelude) + honest + of_results + of_order + of_memory;
}

const std::vector<CudaTask>& cuda_tasks() {
  static const std::vector<CudaTask> tasks{
      {"map", R"(y = "f32[n]")",
       "for (int64_t i = 0; i < n; ++i) { double v = x[i]; y[i] = 0.95 * v + 0.05 * v / (1 + v * v) + 0.01; }"},
      {"sum", R"(y = { type = "f32[1]", absolute = 0, relative = 1e-4 })",
       "double sum = 0; for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * x[i]; y[0] = sum / n;"},
      {"causal", R"(y = { type = "f32[n]", absolute = 0, relative = 1e-4 })",
       "double sum = 0; for (int64_t i = 0; i < n; ++i) { sum += double(x[i]) * x[i]; y[i] = sum / (i + 1); }"},
      {"ragged", R"(y = { type = "f32[64]", absolute = 1e-9, relative = 1e-4 })",
       "for (int64_t r = 0; r < 64; ++r) { double sum = 0; for (int64_t i = 0; i < n * (r + 1) / 64; ++i) "
       "sum += double(x[i]) * x[i]; y[r] = sum / n; }"}};
  return tasks;
}

}  // namespace flashmoe::workflow
