// A whole grid in step: a sum in one launch, partial sums before the grid's barrier and the total behind it.
#include <cooperative_groups.h>

#include "sample.cuh"

namespace cg = cooperative_groups;

__global__ void sum(const int* values, int count, int* partial, int* total) {
  const auto grid = cg::this_grid();
  int mine = 0;
  for (int i = static_cast<int>(grid.thread_rank()); i < count; i += static_cast<int>(grid.size())) mine += values[i];
  partial[grid.thread_rank()] = mine;
  for (int width = static_cast<int>(grid.size()) / 2; width > 0; width /= 2) {
    grid.sync();
    if (grid.thread_rank() < width) partial[grid.thread_rank()] += partial[grid.thread_rank() + width];
  }
  grid.sync();
  if (grid.thread_rank() == 0) *total = partial[0];
}

int main() {
  constexpr int blocks = 8, threads = 64;
  const auto values = random_values<int>(5'003, -100, 100);
  int wanted = 0, count = static_cast<int>(values.size());
  for (const int value : values) wanted += value;
  DeviceArray<int> device(values), partial(blocks * threads), total(1);
  int *in = device, *parts = partial, *out = total;
  void* arguments[] = {&in, &count, &parts, &out};
  WORKS(cudaLaunchCooperativeKernel(sum, dim3(blocks), dim3(threads), arguments, 0, nullptr));
  finish();
  HOLDS(total.host()[0] == wanted);
}
