// CUB's algorithms of the device, each against the standard library. A line CASE for each that held.
#include <cub/cub.cuh>

#include <algorithm>
#include <map>
#include <numeric>

#include "../samples/sample.cuh"

namespace {

constexpr int count = 3'001;

// CUB's two calls: how much memory it wants, then the work.
template <class Algorithm>
void run(const char* name, const Algorithm& algorithm) {
  std::size_t bytes = 0;
  WORKS(algorithm(nullptr, bytes));
  DeviceArray<char> room(std::max<std::size_t>(bytes, 1));
  WORKS(algorithm(static_cast<char*>(room), bytes));
  finish();
  std::printf("CASE CUB %s\n", name);
}

void reduce_and_scan(const std::vector<int>& values) {
  DeviceArray<int> in(values), one(1), out(count);
  run("DeviceReduce::Sum", [&](void* room, std::size_t& bytes) {
    return cub::DeviceReduce::Sum(room, bytes, static_cast<int*>(in), static_cast<int*>(one), count);
  });
  HOLDS(one.host()[0] == std::accumulate(values.begin(), values.end(), 0));
  run("DeviceReduce::Max", [&](void* room, std::size_t& bytes) {
    return cub::DeviceReduce::Max(room, bytes, static_cast<int*>(in), static_cast<int*>(one), count);
  });
  HOLDS(one.host()[0] == *std::max_element(values.begin(), values.end()));
  run("DeviceScan::ExclusiveSum", [&](void* room, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(room, bytes, static_cast<int*>(in), static_cast<int*>(out), count);
  });
  std::vector<int> wanted(count);
  std::exclusive_scan(values.begin(), values.end(), wanted.begin(), 0);
  HOLDS(out.host() == wanted);
}

void sort(const std::vector<int>& values) {
  std::vector<int> places(count);
  std::iota(places.begin(), places.end(), 0);
  DeviceArray<int> in(values), out(count), in_places(places), out_places(count);
  run("DeviceRadixSort::SortPairs", [&](void* room, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(room, bytes, static_cast<int*>(in), static_cast<int*>(out),
                                           static_cast<int*>(in_places), static_cast<int*>(out_places), count);
  });
  std::stable_sort(places.begin(), places.end(), [&](int a, int b) { return values[a] < values[b]; });
  HOLDS(out_places.host() == places);
}

void select(const std::vector<int>& values) {
  const auto is_odd = [] __host__ __device__(int value) { return value % 2 != 0; };
  DeviceArray<int> in(values), out(count), found(1);
  run("DeviceSelect::If", [&](void* room, std::size_t& bytes) {
    return cub::DeviceSelect::If(room, bytes, static_cast<int*>(in), static_cast<int*>(out), static_cast<int*>(found),
                                 count, is_odd);
  });
  std::vector<int> wanted;
  std::copy_if(values.begin(), values.end(), std::back_inserter(wanted), is_odd);
  HOLDS(found.host()[0] == static_cast<int>(wanted.size()));
  std::vector<int> ours(wanted.size());
  WORKS(cudaMemcpy(ours.data(), out, ours.size() * sizeof(int), cudaMemcpyDeviceToHost));
  HOLDS(ours == wanted);
}

void histogram(const std::vector<int>& values) {
  std::vector<int> wanted(16);
  for (const int value : values) ++wanted[(value + 1000) * 16 / 2000];
  DeviceArray<int> in(values), bins(16);
  run("DeviceHistogram::HistogramEven", [&](void* room, std::size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(room, bytes, static_cast<int*>(in), static_cast<int*>(bins), 17, -1000,
                                               1000, count);
  });
  HOLDS(bins.host() == wanted);
}

}  // namespace

int main() {
  const auto values = random_values<int>(count, -999, 999);
  reduce_and_scan(values);
  sort(values);
  select(values);
  histogram(values);
}
