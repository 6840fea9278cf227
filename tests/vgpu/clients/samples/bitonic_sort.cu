// A bitonic network of a block, keys and values in shared memory.
#include "sample.cuh"

constexpr int count = 512;

__global__ void sort(unsigned* keys, unsigned* values) {
  __shared__ unsigned key[count], value[count];
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    key[i] = keys[i];
    value[i] = values[i];
  }
  for (int size = 2; size <= count; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int low = 2 * threadIdx.x - (threadIdx.x & (distance - 1)), high = low + distance;
      if ((key[low] > key[high]) == ((low & size) == 0)) {
        const unsigned other_key = key[low], other_value = value[low];
        key[low] = key[high], value[low] = value[high];
        key[high] = other_key, value[high] = other_value;
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    keys[i] = key[i];
    values[i] = value[i];
  }
}

int main() {
  const auto keys = random_values<unsigned>(count, 0, 4e9);
  std::vector<unsigned> places(count);
  for (unsigned i = 0; i < count; ++i) places[i] = i;
  DeviceArray<unsigned> device_keys(keys), device_values(places);
  sort<<<1, count / 2>>>(device_keys, device_values);
  finish();
  auto wanted = keys;
  std::sort(wanted.begin(), wanted.end());
  const auto ours = device_keys.host(), came_from = device_values.host();
  HOLDS(ours == wanted);
  for (int i = 0; i < count; ++i) HOLDS(keys[came_from[i]] == ours[i]);
}
