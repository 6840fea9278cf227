// Every atomic function over one array, and a sum of doubles by compare-and-swap.
#include "sample.cuh"

__global__ void everything(int* cells, unsigned* wrapping, unsigned long long* wide, float* sum) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&cells[0], 3);
  atomicSub(&cells[1], 2);
  atomicMax(&cells[2], i);
  atomicMin(&cells[3], -i);
  atomicAnd(&cells[4], ~(1 << (i % 31)));
  atomicOr(&cells[5], 1 << (i % 31));
  atomicXor(&cells[6], 1 << (i % 31));
  if (atomicCAS(&cells[7], 0, i + 1) == 0) atomicExch(&cells[8], i + 1);
  atomicInc(&wrapping[0], 6);
  atomicDec(&wrapping[1], 6);
  atomicAdd(&wide[0], 1ULL << 33);
  atomicMax(&wide[1], static_cast<unsigned long long>(i) << 40);
  atomicAdd(sum, 0.5F);
}

__global__ void swapped(unsigned long long* sum) {
  unsigned long long seen = *const_cast<volatile unsigned long long*>(sum), before;
  do {
    before = seen;
    seen = atomicCAS(sum, before, __double_as_longlong(__longlong_as_double(before) + 0.25));
  } while (seen != before);
}

int main() {
  constexpr int threads = 4 * 96;
  DeviceArray<int> cells(std::vector<int>{0, 0, -1, 1, ~0, 0, 0, 0, 0});
  DeviceArray<unsigned> wrapping(std::vector<unsigned>(2));
  DeviceArray<unsigned long long> wide(std::vector<unsigned long long>(2)), sum(std::vector<unsigned long long>(1));
  DeviceArray<float> halves(std::vector<float>(1));
  everything<<<4, 96>>>(cells, wrapping, wide, halves);
  swapped<<<2, 64>>>(sum);
  finish();
  const auto c = cells.host();
  HOLDS(c[0] == 3 * threads && c[1] == -2 * threads && c[2] == threads - 1 && c[3] == 1 - threads);
  HOLDS(c[4] == static_cast<int>(0x80000000U) && c[5] == 0x7FFFFFFF);
  int odd = 0;
  for (int i = 0; i < threads; ++i) odd ^= 1 << (i % 31);
  HOLDS(c[6] == odd && c[7] > 0 && c[7] == c[8]);
  unsigned up = 0, down = 0;
  for (int i = 0; i < threads; ++i) up = up >= 6 ? 0 : up + 1, down = down == 0 || down > 6 ? 6 : down - 1;
  HOLDS(wrapping.host()[0] == up && wrapping.host()[1] == down);
  HOLDS(wide.host()[0] == (static_cast<unsigned long long>(threads) << 33));
  HOLDS(wide.host()[1] == (static_cast<unsigned long long>(threads - 1) << 40));
  HOLDS(halves.host()[0] == 0.5F * threads);
  const unsigned long long bits = sum.host()[0];
  HOLDS(bits == 0x4040000000000000ULL);  // 128 times 0.25, which is 32
}
