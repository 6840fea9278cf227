// Clocks of the device go forward: the SM's by each instruction, the global one at all.
#include "sample.cuh"

__global__ void work(long long* ticks, unsigned long long* nanoseconds, float* kept) {
  unsigned long long before, after;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
  const long long begin = clock64();
  float x = threadIdx.x;
  for (int i = 0; i < 200; ++i) x = x * 1.0001F + 0.5F;
  kept[threadIdx.x] = x;
  const long long end = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after));
  ticks[threadIdx.x] = end - begin;
  nanoseconds[threadIdx.x] = after - before;
}

int main() {
  DeviceArray<long long> ticks(64);
  DeviceArray<unsigned long long> nanoseconds(64);
  DeviceArray<float> kept(64);
  work<<<1, 64>>>(ticks, nanoseconds, kept);
  finish();
  for (const long long one : ticks.host()) HOLDS(one > 0);
  for (const unsigned long long one : nanoseconds.host()) HOLDS(one < 10'000'000'000ULL);
}
