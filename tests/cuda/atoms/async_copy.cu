// Copies that land in groups, and zeros where nothing is to be read.
#include "kernels/cuda/atoms/async_copy.cuh"
#include "kernels/cuda/atoms/shared_memory.cuh"

// The first group is read while the second may still be under way.
extern "C" __global__ void two_groups(const uint4* first, const uint4* second, uint4* to) {
  using namespace flashmoe::cuda;
  __shared__ __align__(16) unsigned char memory[2 * 32 * 16];
  const uint32 mine = shared_address(memory) + threadIdx.x * 16;
  copy_async_or_zero(mine, first + threadIdx.x, true);
  commit_copies();
  copy_async_or_zero(mine + 512, second + threadIdx.x, true);
  commit_copies();
  wait_for_copies<1>();
  __syncthreads();
  // Another thread's: a wait is the waiting thread's own, the barrier hands it on.
  to[threadIdx.x] = load_shared(shared_address(memory) + (31 - threadIdx.x) * 16);
  wait_for_copies<0>();
  __syncthreads();
  to[32 + threadIdx.x] = load_shared(shared_address(memory) + 512 + (31 - threadIdx.x) * 16);
}

// Where there is nothing, the address leads nowhere.
extern "C" __global__ void zero_fill(const uint4* from, unsigned is_there, uint4* to) {
  using namespace flashmoe::cuda;
  __shared__ __align__(16) unsigned char memory[32 * 16];
  const uint32 mine = shared_address(memory) + threadIdx.x * 16;
  store_shared(mine, uint4{7, 7, 7, 7});
  __syncwarp();
  const bool mine_is_there = (is_there >> threadIdx.x & 1) != 0;
  copy_async_or_zero(mine, mine_is_there ? from + threadIdx.x : nullptr, mine_is_there);
  commit_copies();
  wait_for_copies<0>();
  to[threadIdx.x] = load_shared(mine);
}

// Wrong on purpose: the copy may not have landed. The checks must say so, or they say nothing about the kernels above.
extern "C" __global__ void forgets_to_wait(const uint4* from, uint4* to) {
  using namespace flashmoe::cuda;
  __shared__ __align__(16) unsigned char memory[32 * 16];
  const uint32 mine = shared_address(memory) + threadIdx.x * 16;
  copy_async_or_zero(mine, from + threadIdx.x, true);
  commit_copies();
  to[threadIdx.x] = load_shared(mine);
}
