// pack_image FATBIN PTX_FATBIN TO: the build's last step of a kernel.
#include <zstd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "kernels/cuda/launch/image_frame.hpp"

namespace {

// The strongest (19) takes seven times as long for an eighth less.
constexpr int level = 12;

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: pack_image FATBIN PTX_FATBIN TO\n", stderr);
    return 2;
  }
  const std::string fatbin = contents(argv[1]), ptx = contents(argv[2]);
  if (fatbin.empty() || ptx.empty()) {
    std::fprintf(stderr, "pack_image: cannot read %s or %s\n", argv[1], argv[2]);
    return 1;
  }
  const flashmoe::cuda::FrameHeader header{fatbin.size(), ptx.size()};
  const std::string plain = std::string(reinterpret_cast<const char*>(&header), sizeof header) + fatbin + ptx;
  std::string frame(ZSTD_compressBound(plain.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // a frame may lie in a file that somebody copied
  const std::size_t size = ZSTD_compress2(context, frame.data(), frame.size(), plain.data(), plain.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) {
    std::fprintf(stderr, "pack_image: %s\n", ZSTD_getErrorName(size));
    return 1;
  }
  std::ofstream to(argv[3], std::ios::binary | std::ios::trunc);
  to.write(frame.data(), static_cast<std::streamsize>(size));
  to.close();
  if (!to) {
    std::fprintf(stderr, "pack_image: cannot write %s\n", argv[3]);
    return 1;
  }
  return 0;
}
