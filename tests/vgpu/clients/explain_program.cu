// A program of the runtime API for explain_test.py: never run, only read.
#include <cstdio>

__global__ void runs(float* x) {
  x[threadIdx.x] *= 2;
}

// An instruction that the virtual GPU does not execute (PTX ISA 9.7.19.3).
__global__ void triggers_an_event(float* x) {
  asm volatile("pmevent 1;");
  x[threadIdx.x] = 1;
}

int main() {
  std::puts("it ran");
  runs<<<1, 32>>>(nullptr);
  triggers_an_event<<<1, 32>>>(nullptr);
}
