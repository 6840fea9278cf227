// Kernels of everyday shapes, by which vgpu_speed.py tells what the virtual GPU's checks cost. All of them take the
// same arguments: two matrices of n x n, or vectors of n * n, and where the result goes.
#define KERNEL extern "C" __global__ void

constexpr int tile = 32;

// As the CUDA C++ Programming Guide shows it: one element of C a thread, a tile of A and of B in shared memory.
KERNEL sgemm_shared(const float* a, const float* b, float* c, int n) {
  __shared__ float of_a[tile][tile], of_b[tile][tile];
  const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    of_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    of_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < tile; ++i) sum += of_a[threadIdx.y][i] * of_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// Tiles of 64 x 64, of which a thread of 256 computes 4 x 4.
KERNEL sgemm_registers(const float* a, const float* b, float* c, int n) {
  constexpr int side = 64, depth = 16;
  __shared__ float of_a[depth][side + 4], of_b[depth][side];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int first_row = blockIdx.y * side, first_column = blockIdx.x * side;
  float sum[4][4] = {};
  for (int k = 0; k < n; k += depth) {
    for (int i = threadIdx.x; i < side * depth; i += 256) {
      of_a[i % depth][i / depth] = a[(first_row + i / depth) * n + k + i % depth];
      of_b[i / side][i % side] = b[(k + i / side) * n + first_column + i % side];
    }
    __syncthreads();
    for (int i = 0; i < depth; ++i) {
      const float4 left = *reinterpret_cast<const float4*>(&of_a[i][4 * y]);
      const float4 right = *reinterpret_cast<const float4*>(&of_b[i][4 * x]);
      const float rows[4] = {left.x, left.y, left.z, left.w}, columns[4] = {right.x, right.y, right.z, right.w};
      for (int r = 0; r < 4; ++r)
        for (int s = 0; s < 4; ++s) sum[r][s] += rows[r] * columns[s];
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r)
    for (int s = 0; s < 4; ++s) c[(first_row + 4 * y + r) * n + first_column + 4 * x + s] = sum[r][s];
}

KERNEL sgemm_naive(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

KERNEL saxpy(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += gridDim.x * blockDim.x) c[i] = 2 * a[i] + b[i];
}

// Every lane reads from another row.
KERNEL strided(const float* a, const float*, float* c, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  c[row * n + column] = a[column * n + row];
}

// Addresses without an order, branches that part lanes, loops that they leave one by one.
KERNEL divergent(const float* a, const float* b, float* c, int n) {
  const unsigned count = n * n;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = thread * 2654435761u;
  float sum = 0;
  for (unsigned step = 0; step < 4 + thread % 13; ++step) {
    at = at * 1664525u + 1013904223u;
    if ((at >> 16 & 1) != 0) {
      sum += a[(at >> 8) % count];
    } else {
      sum -= 0.5f * b[(at >> 8) % count];
    }
  }
  c[thread] = sum;
}

// Counted in shared memory, then added up in global memory.
KERNEL histogram(const float* a, const float*, float* c, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[static_cast<unsigned>(a[i] * 255) % 256], 1u);
  __syncthreads();
  atomicAdd(&c[threadIdx.x], static_cast<float>(bins[threadIdx.x]));
}

KERNEL global_atomics(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += gridDim.x * blockDim.x)
    atomicAdd(&c[static_cast<unsigned>(a[i] * 4095) % 4096], b[i]);
}

// The sum of each row: shuffles within a warp, shared memory between them.
KERNEL reduction(const float* a, const float*, float* c, int n) {
  __shared__ float of_warp[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[blockIdx.x * n + i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x == 0) c[blockIdx.x] = sum;
}

// Attention in the manner of FlashAttention, fp32: a row of queries a thread, blocks of keys and values in shared
// memory, the softmax on line. n is head size times keys: rows of 64 elements.
KERNEL attention(const float* q, const float* kv, float* o, int n) {
  constexpr int size = 64, block = 32;
  __shared__ float keys[block][size], values[block][size];
  const int rows = n * n / size;
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float query[size], sum[size] = {}, largest = -1e30f, weight = 0;
  for (int d = 0; d < size; ++d) query[d] = q[row * size + d];
  for (int first = 0; first < rows / 2; first += block) {
    for (int i = threadIdx.x; i < block * size; i += blockDim.x) {
      keys[i / size][i % size] = kv[first * size + i];
      values[i / size][i % size] = kv[(rows / 2 + first) * size + i];
    }
    __syncthreads();
    for (int key = 0; key < block; ++key) {
      float score = 0;
      for (int d = 0; d < size; ++d) score += query[d] * keys[key][d];
      const float next = fmaxf(largest, score), old = exp2f(largest - next), mine = exp2f(score - next);
      for (int d = 0; d < size; ++d) sum[d] = sum[d] * old + mine * values[key][d];
      weight = weight * old + mine;
      largest = next;
    }
    __syncthreads();
  }
  for (int d = 0; d < size; ++d) o[row * size + d] = sum[d] / weight;
}
