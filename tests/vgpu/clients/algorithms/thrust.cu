// Thrust's algorithms of the device, each against the standard library. A line CASE for each that held.
#include <thrust/binary_search.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <algorithm>
#include <numeric>

#include "../samples/sample.cuh"

namespace {

constexpr int count = 2'503;

void held(const char* name) {
  finish();
  std::printf("CASE Thrust %s\n", name);
}

std::vector<int> host(const thrust::device_vector<int>& values) {
  std::vector<int> result(values.size());
  thrust::copy(values.begin(), values.end(), result.begin());
  return result;
}

}  // namespace

int main() {
  const auto values = random_values<int>(count, -100, 100);
  const thrust::device_vector<int> device(values.begin(), values.end());

  HOLDS(thrust::reduce(device.begin(), device.end()) == std::accumulate(values.begin(), values.end(), 0));
  held("reduce");

  thrust::device_vector<int> out(count);
  thrust::transform(device.begin(), device.end(), out.begin(), thrust::negate<int>());
  auto wanted = values;
  for (int& value : wanted) value = -value;
  HOLDS(host(out) == wanted);
  held("transform");

  thrust::inclusive_scan(device.begin(), device.end(), out.begin());
  std::partial_sum(values.begin(), values.end(), wanted.begin());
  HOLDS(host(out) == wanted);
  held("inclusive_scan");

  HOLDS(thrust::inner_product(device.begin(), device.end(), device.begin(), 0) ==
        std::inner_product(values.begin(), values.end(), values.begin(), 0));
  held("inner_product");

  out = device;
  thrust::sort(out.begin(), out.end());
  wanted = values;
  std::sort(wanted.begin(), wanted.end());
  HOLDS(host(out) == wanted);
  held("sort");

  thrust::device_vector<int> places(count);
  thrust::sequence(places.begin(), places.end());
  auto keys = device;
  thrust::sort_by_key(keys.begin(), keys.end(), places.begin(), thrust::greater<int>());
  const auto order = host(places);
  for (int i = 1; i < count; ++i) HOLDS(values[order[i - 1]] >= values[order[i]]);
  held("sequence and sort_by_key");

  HOLDS(thrust::lower_bound(out.begin(), out.end(), 7) - out.begin() ==
        std::lower_bound(wanted.begin(), wanted.end(), 7) - wanted.begin());
  held("lower_bound");

  out.erase(thrust::unique(out.begin(), out.end()), out.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  HOLDS(host(out) == wanted);
  held("unique");
}
