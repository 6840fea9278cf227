// What pack_image puts in a frame and unpacked() takes out: this header, the fatbin, the fatbin of the PTX.
#pragma once

#include <cstdint>

namespace flashmoe::cuda {

struct FrameHeader {
  std::uint64_t fatbin_bytes;
  std::uint64_t ptx_bytes;
};

}  // namespace flashmoe::cuda
