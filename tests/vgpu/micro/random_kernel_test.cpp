// A few hundred random kernels on the virtual GPU and on the oracle; fuzz/fuzz_ptx_exec.cpp looks at many more.
#include "vgpu/micro/random_kernel.hpp"

#include <gtest/gtest.h>

#include <random>

#include "support/sanitizers.hpp"
#include "vgpu/micro/bench.hpp"

namespace flashmoe::vgpu::micro {
namespace {

TEST(RandomKernels, AgreeWithTheOracle) {
  constexpr int kernels = flashmoe::testing::kSlowBuild ? 40 : 400;
  Bench bench;
  int failed = 0;
  for (int seed = 0; seed < kernels && failed < 5; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    std::vector<std::uint8_t> bytes(16 + random() % 400);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const MicroKernel kernel = random_kernel(bytes);
    const std::string problem = bench.judge(kernel);
    if (problem.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << ": " << problem << "\n" << kernel.text;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::micro
