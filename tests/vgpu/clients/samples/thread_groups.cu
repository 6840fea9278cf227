// Cooperative groups below a block: tiles of 4, 8 and 16 lanes, their reductions, and who happens to be here.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "sample.cuh"

namespace cg = cooperative_groups;

template <int Size>
__global__ void tile_sums(const int* in, int* out) {
  const auto tile = cg::tiled_partition<Size>(cg::this_thread_block());
  out[threadIdx.x] = cg::reduce(tile, in[threadIdx.x], cg::plus<int>());
}

__global__ void odd_ones(int* rank, int* size) {
  rank[threadIdx.x] = size[threadIdx.x] = -1;
  if (threadIdx.x % 3 == 1) {
    const auto together = cg::coalesced_threads();
    rank[threadIdx.x] = together.thread_rank();
    size[threadIdx.x] = together.size();
  }
}

template <int Size>
void check(const std::vector<int>& values) {
  DeviceArray<int> in(values), out(values.size());
  tile_sums<Size><<<1, static_cast<int>(values.size())>>>(in, out);
  finish();
  const auto ours = out.host();
  for (std::size_t i = 0; i < values.size(); ++i) {
    int wanted = 0;
    for (int lane = 0; lane < Size; ++lane) wanted += values[i / Size * Size + lane];
    HOLDS(ours[i] == wanted);
  }
}

int main() {
  const auto values = random_values<int>(96, -9, 9);
  check<4>(values);
  check<8>(values);
  check<16>(values);
  check<32>(values);
  DeviceArray<int> rank(32), size(32);
  odd_ones<<<1, 32>>>(rank, size);
  finish();
  const auto ranks = rank.host(), sizes = size.host();
  for (int lane = 0; lane < 32; ++lane) {
    HOLDS(ranks[lane] == (lane % 3 == 1 ? lane / 3 : -1));
    HOLDS(sizes[lane] == (lane % 3 == 1 ? 11 : -1));
  }
}
