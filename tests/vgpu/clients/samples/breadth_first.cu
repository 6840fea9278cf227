// Distances in a graph, a launch a level; what a level found is the next one's work.
#include "sample.cuh"

__global__ void level(const int* starts, const int* targets, const int* work, int count, int depth, int* distance,
                      int* found, int* found_count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (int edge = starts[work[i]]; edge < starts[work[i] + 1]; ++edge)
    if (atomicCAS(&distance[targets[edge]], -1, depth) == -1) found[atomicAdd(found_count, 1)] = targets[edge];
}

int main() {
  constexpr int nodes = 600;
  std::mt19937 engine(8);
  std::vector<int> starts{0}, targets;
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < 3; ++i) targets.push_back(static_cast<int>(engine() % nodes));
    starts.push_back(static_cast<int>(targets.size()));
  }
  std::vector<int> wanted(nodes, -1), queue{0};
  wanted[0] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (int edge = starts[queue[i]]; edge < starts[queue[i] + 1]; ++edge)
      if (wanted[targets[edge]] == -1) {
        wanted[targets[edge]] = wanted[queue[i]] + 1;
        queue.push_back(targets[edge]);
      }

  std::vector<int> unseen(nodes, -1);
  unseen[0] = 0;
  DeviceArray<int> device_starts(starts), device_targets(targets), distance(unseen), count(1);
  DeviceArray<int> first(unseen), second(unseen);
  int *work = first, *found = second;
  for (int depth = 1, size = 1; size > 0; ++depth) {
    WORKS(cudaMemset(count, 0, sizeof(int)));
    level<<<blocks_for(size, 64), 64>>>(device_starts, device_targets, work, size, depth, distance, found, count);
    finish();
    size = count.host()[0];
    std::swap(work, found);
  }
  HOLDS(distance.host() == wanted);
}
