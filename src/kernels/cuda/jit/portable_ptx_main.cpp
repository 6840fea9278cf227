// portable_ptx FROM TO: the build's step between nvcc and ptxas.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "kernels/cuda/jit/portable_ptx.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: portable_ptx FROM TO\n", stderr);
    return 2;
  }
  std::ifstream from(argv[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(from)), std::istreambuf_iterator<char>());
  std::ofstream to(argv[2], std::ios::binary | std::ios::trunc);
  to << flashmoe::cuda::portable_ptx(text);
  to.close();
  if (text.empty() || !to) {
    std::fprintf(stderr, "portable_ptx: cannot read %s or cannot write %s\n", argv[1], argv[2]);
    return 1;
  }
  return 0;
}
