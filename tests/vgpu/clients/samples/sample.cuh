// What the programs of this folder share: device arrays that copy themselves, numbers, and what has to hold.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../holds.cuh"

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) { WORKS(cudaMalloc(&data_, count * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    WORKS(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { (void)cudaFree(data_); }

  operator T*() { return data_; }  // NOLINT(google-explicit-constructor): it stands for its pointer in a launch
  std::vector<T> host() const {
    std::vector<T> values(count_);
    WORKS(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

template <class T>
std::vector<T> random_values(std::size_t count, double lowest, double highest, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> values(lowest, highest);
  std::vector<T> result(count);
  for (T& value : result) value = static_cast<T>(values(engine));
  return result;
}

// The launch was accepted, and what it did is done.
inline void finish() {
  WORKS(cudaGetLastError());
  WORKS(cudaDeviceSynchronize());
}

inline int blocks_for(std::size_t count, int threads) {
  return static_cast<int>((count + threads - 1) / threads);
}

// Whether two floats differ by no more than so many roundings of the larger one, or of 1.
inline bool close(double ours, double wanted, double roundings) {
  return std::abs(ours - wanted) <= roundings * 0x1p-24 * std::max(1.0, std::abs(wanted));
}
