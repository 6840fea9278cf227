#include "vgpu/exec/heap.hpp"

#include <algorithm>
#include <utility>

namespace flashmoe::vgpu::exec {
namespace {

constexpr std::uint64_t block_align = 16;  // what malloc promises

}  // namespace

Heap::~Heap() {
  for (const auto& [address, bytes] : blocks_) static_cast<void>(memory_.free(address));
}

std::uint64_t Heap::allocate(std::uint64_t bytes, std::string what) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t left = bytes_ - std::min(used_, bytes_);
  if (bytes == 0 || bytes > left) return 0;
  const std::uint64_t taken = (bytes + block_align - 1) / block_align * block_align;
  const Result<std::uint64_t> address = taken > left ? 0 : memory_.allocate(bytes, std::move(what));
  if (!address || *address == 0) return 0;
  blocks_.emplace(*address, taken);
  used_ += taken;
  return *address;
}

Result<Done> Heap::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return Diagnostic{.message = memory_.describe(address) + "; malloc did not return it"};
  used_ -= block->second;
  blocks_.erase(block);
  return memory_.free(address);
}

}  // namespace flashmoe::vgpu::exec
