// Correct kernels, and what one wrong character makes of them. Every kernel has the signature
//   (const float* in, float* out, unsigned* work, int n)
// where `in` holds small whole numbers, `out` holds nothing yet and `work` is zero.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "vgpu/exec/state.hpp"
#include "vgpu/observe/finding.hpp"

namespace flashmoe::vgpu::corpus {

struct Memory {
  std::vector<float> in{}, out{};
  std::vector<std::uint32_t> work{};
};

struct Case {
  std::string name{};  // of the kernel and of its file in tests/vgpu/kernels
  exec::Dim3 grid{}, block{};
  int n = 0;
  std::size_t in_count = 0, out_count = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::function<void(Memory&)> expected{};  // fills out and work, whatever the schedule
  bool any_order = false;                   // `out` may be permuted
};

struct Mutant {
  std::string name{};
  std::string kernel{};
  std::string from{}, to{};  // the first occurrence of `from` in the file becomes `to`
  observe::Check check{};
  std::string says{};  // part of the finding's message
};

[[nodiscard]] const std::vector<Case>& cases();
[[nodiscard]] const std::vector<Mutant>& mutants();

}  // namespace flashmoe::vgpu::corpus
