// Shuffles of all four kinds, ballots, votes, matches and the reduction instruction.
#include "sample.cuh"

constexpr int results = 9;

__global__ void warp(const int* in, int* out) {
  const int lane = threadIdx.x, mine = in[lane];
  const int found[results] = {__shfl_sync(~0U, mine, (lane * 5) % 32),
                              __shfl_up_sync(~0U, mine, 3),
                              __shfl_down_sync(~0U, mine, 4, 8),
                              __shfl_xor_sync(~0U, mine, 9),
                              static_cast<int>(__ballot_sync(~0U, mine > 0)),
                              __any_sync(~0U, mine == 7) * 2 + __all_sync(~0U, mine < 100),
                              static_cast<int>(__match_any_sync(~0U, mine)),
                              __reduce_add_sync(~0U, mine),
                              __popc(__activemask())};
  for (int i = 0; i < results; ++i) out[lane * results + i] = found[i];
}

int main() {
  const auto in = random_values<int>(32, -9, 9);
  DeviceArray<int> device(in), out(32 * results);
  warp<<<1, 32>>>(device, out);
  finish();
  const auto ours = out.host();
  unsigned positive = 0;
  int sum = 0;
  bool seven = false;
  for (int lane = 0; lane < 32; ++lane) {
    positive |= static_cast<unsigned>(in[lane] > 0) << lane;
    sum += in[lane];
    seven |= in[lane] == 7;
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int* row = &ours[lane * results];
    unsigned same = 0;
    for (int other = 0; other < 32; ++other) same |= static_cast<unsigned>(in[other] == in[lane]) << other;
    HOLDS(row[0] == in[(lane * 5) % 32] && row[1] == in[lane >= 3 ? lane - 3 : lane]);
    HOLDS(row[2] == in[lane % 8 < 4 ? lane + 4 : lane] && row[3] == in[lane ^ 9]);
    HOLDS(static_cast<unsigned>(row[4]) == positive && row[5] == seven * 2 + 1);
    HOLDS(static_cast<unsigned>(row[6]) == same && row[7] == sum && row[8] == 32);
  }
}
