// Numbers on the device, for the length of a test.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& numbers) : count_(numbers.size()) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, numbers.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }

  operator T*() const { return data_; }
  std::vector<T> numbers() const {
    std::vector<T> found(count_);
    EXPECT_EQ(cudaMemcpy(found.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return found;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// 0, 1, 2, ...
inline std::vector<int> counted(int count) {
  std::vector<int> numbers(count);
  for (int i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}
