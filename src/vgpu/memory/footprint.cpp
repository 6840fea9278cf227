#include "vgpu/memory/footprint.hpp"

#include <sys/mman.h>

namespace flashmoe::vgpu::memory {

namespace {
constexpr std::uint32_t most_launches = (1u << 24) - 1;  // that the upper 24 bits of a line can name
}

std::unique_ptr<Footprint> Footprint::create(const DeviceMemory& memory) {
  const std::uint64_t bytes = memory.reserved_bytes() / line_bytes * sizeof(std::uint32_t) + sizeof(std::uint32_t);
  void* const lines = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (lines == MAP_FAILED) return nullptr;
  return std::unique_ptr<Footprint>(new Footprint(static_cast<std::uint32_t*>(lines), bytes));
}

Footprint::~Footprint() {
  munmap(lines_, bytes_);
}

void Footprint::begin_launch() {
  if (launch_ < most_launches) {
    ++launch_;
    return;
  }
  madvise(lines_, bytes_, MADV_DONTNEED);  // all of it reads zero again
  launch_ = 1;
}

}  // namespace flashmoe::vgpu::memory
