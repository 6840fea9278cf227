// Shared memory as a worker sees it.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace flashmoe::workflow {

struct Mapping {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }
  void reset() {
    if (data) munmap(data, bytes);
    data = nullptr;
    bytes = 0;
  }
};

}  // namespace flashmoe::workflow
