// The test kernels of this folder on the virtual GPU, each compiled twice: by nvcc when the tests are built, and by
// NVRTC when they run.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda/gpu_run.hpp"

namespace flashmoe::testing {

enum class Compiler { nvcc, nvrtc };

const Gpu& atoms_gpu();

// A kernel of `source` ("mma.cu"). Throws when it cannot be compiled or loaded.
runtime::Function atom_kernel(Compiler compiler, const std::string& source, const std::string& kernel);

// Device memory from a vector, and back.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(std::vector<T> values) : values_(std::move(values)), buffer_(made(values_.size() * sizeof(T))) {
    check(buffer_.write(std::as_bytes(std::span(values_))));
  }
  explicit DeviceVector(std::size_t count) : DeviceVector(std::vector<T>(count)) {}

  [[nodiscard]] runtime::cuda::DeviceAddress address() const { return buffer_.address(); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> now(values_.size());
    check(buffer_.read(std::as_writable_bytes(std::span(now))));
    return now;
  }

 private:
  static void check(const Result<Done>& result) {
    if (!result) throw std::runtime_error(result.error().to_string());
  }
  static runtime::Buffer made(std::size_t bytes) {
    auto buffer = runtime::Buffer::create(atoms_gpu().device(), bytes);
    if (!buffer) throw std::runtime_error(buffer.error().to_string());
    return std::move(*buffer);
  }
  std::vector<T> values_;
  runtime::Buffer buffer_;
};

// Launches with these values as arguments and waits. Returns what the checks found.
template <class... Arguments>
std::vector<std::string> launch(const runtime::Function& kernel, unsigned blocks, unsigned threads,
                                Arguments... arguments) {
  std::array<void*, sizeof...(Arguments)> pointers{static_cast<void*>(&arguments)...};
  runtime::Geometry geometry;
  geometry.grid[0] = blocks;
  geometry.block[0] = threads;
  if (auto launched = kernel.launch(geometry, pointers); !launched)
    throw std::runtime_error(launched.error().to_string());
  if (auto done = atoms_gpu().device()->synchronize(); !done) throw std::runtime_error(done.error().to_string());
  return atoms_gpu().findings();
}

// Every test of an atom is a test of both compilers.
class Atoms : public ::testing::TestWithParam<Compiler> {
 protected:
  static runtime::Function kernel(const std::string& source, const std::string& name) {
    return atom_kernel(GetParam(), source, name);
  }
};

inline std::string compiler_name(const ::testing::TestParamInfo<Compiler>& param) {
  return param.param == Compiler::nvcc ? "nvcc" : "nvrtc";
}

}  // namespace flashmoe::testing
