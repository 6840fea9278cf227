// Bytes as a random kernel: the virtual GPU and the scalar oracle must leave the same bits.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "vgpu/micro/bench.hpp"
#include "vgpu/micro/random_kernel.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flashmoe::vgpu::micro;
  if (size > 4096) return 0;
  static Bench bench;
  const MicroKernel kernel = random_kernel({data, size});
  const std::string problem = bench.judge(kernel);
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n%s\n", problem.c_str(), kernel.text.c_str());
  std::abort();
}
