// printf of the device: what it prints is counted by what it returns, the number of its arguments.
#include "sample.cuh"

__global__ void speak(int* returned) {
  returned[threadIdx.x] = printf("thread %d: %s %5.2f %llx\n", threadIdx.x, threadIdx.x % 2 ? "odd" : "even",
                                 threadIdx.x / 3.0, 0x123456789ULL);
}

int main() {
  DeviceArray<int> returned(4);
  speak<<<1, 4>>>(returned);
  finish();
  for (const int arguments : returned.host()) HOLDS(arguments == 4);
}
