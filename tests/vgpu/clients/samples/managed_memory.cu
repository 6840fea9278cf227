// Memory that both sides see: a list of nodes that the host links and the device walks and changes.
#include "sample.cuh"

struct Node {
  int value;
  Node* next;
};

__managed__ int visited;

__global__ void walk(Node* node) {
  for (; node != nullptr; node = node->next) {
    node->value *= 3;
    ++visited;
  }
}

int main() {
  constexpr int count = 20;
  Node* nodes = nullptr;
  WORKS(cudaMallocManaged(&nodes, count * sizeof(Node)));
  for (int i = 0; i < count; ++i) nodes[i] = {i, i + 7 < count ? &nodes[i + 7] : nullptr};
  visited = 0;
  walk<<<1, 1>>>(&nodes[2]);
  finish();
  HOLDS(visited == 3 && nodes[2].value == 6 && nodes[9].value == 27 && nodes[16].value == 48 && nodes[3].value == 3);
  WORKS(cudaFree(nodes));
}
