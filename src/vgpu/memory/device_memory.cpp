#include "vgpu/memory/device_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace flashmoe::vgpu::memory {

namespace {

// Allocations begin on a page of their own, so that freeing one gives its pages back to the host.
constexpr std::uint64_t page_bytes = 4096;
// Around allocations: an index that runs a few rows too far meets no other allocation, nor memory of the host.
constexpr std::uint64_t gap_bytes = 4096;
// Addresses cost nothing, so freed ranges can lie idle for long before they must be used again.
constexpr std::uint64_t addresses_per_byte = 4;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

// An allocation and the gap behind it.
std::uint64_t footprint(std::uint64_t bytes) {
  return round_up(bytes, page_bytes) + gap_bytes;
}

}  // namespace

std::string Allocation::place(std::uint64_t at) const {
  if (at < address) {
    return fmt::format("{} bytes before", address - at);
  }
  return at - address < bytes ? fmt::format("{} bytes into", at - address)
                              : fmt::format("{} bytes past the end of", at - (address + bytes));
}

Result<DeviceMemory*> DeviceMemory::create(std::uint64_t bytes) {
  const std::uint64_t reserved = gap_bytes + round_up(bytes, page_bytes) * addresses_per_byte + gap_bytes;
  void* const base = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Diagnostic{
        fmt::format("cannot reserve {} bytes of addresses for device memory: {}", reserved, std::strerror(errno)),
        "raise the limit of virtual memory (ulimit -v) or take a device with less memory"};
  }
  auto* const memory = new DeviceMemory;
  memory->base_ = reinterpret_cast<std::uint64_t>(base);
  memory->size_ = bytes;
  memory->reserved_ = reserved;
  memory->next_ = memory->base_ + gap_bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  munmap(reinterpret_cast<void*>(base_), reserved_);
}

bool DeviceMemory::map_up_to(std::uint64_t end) {
  const std::uint64_t mapped = mapped_bytes();
  const std::uint64_t wanted = round_up(end - base_, page_bytes);
  if (wanted <= mapped) {
    return true;
  }
  if (mprotect(reinterpret_cast<void*>(base_ + mapped), wanted - mapped, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  mapped_.store(wanted, std::memory_order_relaxed);
  return true;
}

// The first space between live allocations that is large enough; what was freed there is forgotten. 0: none.
std::uint64_t DeviceMemory::place_in_freed(std::uint64_t bytes, std::uint64_t align) {
  std::uint64_t begin = base_ + gap_bytes;
  const auto fits = [&](std::uint64_t end) {
    const std::uint64_t start = round_up(begin, align);
    return start + footprint(bytes) <= end ? start : 0;
  };
  std::uint64_t start = 0;
  for (const auto& [address, allocation] : allocations_) {
    if (!allocation.is_live) {
      continue;
    }
    start = fits(address);
    if (start != 0) {
      break;
    }
    begin = address + footprint(allocation.bytes);
  }
  if (start == 0) {
    start = fits(base_ + reserved_);
  }
  if (start == 0) {
    return 0;
  }
  const std::uint64_t end = start + footprint(bytes);
  std::erase_if(allocations_, [&](const auto& entry) {
    const Allocation& freed = entry.second;
    return !freed.is_live && freed.address < end && start < freed.address + footprint(freed.bytes);
  });
  return start;
}

Result<std::uint64_t> DeviceMemory::allocate(std::uint64_t bytes, std::string what, std::uint64_t align,
                                             bool is_constant) {
  if (bytes == 0) {
    return Diagnostic{"an allocation of zero bytes", "allocate at least one byte"};
  }
  if (align == 0 || (align & (align - 1)) != 0) {
    return Diagnostic{fmt::format("an alignment of {} bytes is not a power of two", align)};
  }
  const std::lock_guard lock(mutex_);
  if (bytes > size_ || in_use_ > size_ - bytes) {
    return Diagnostic{fmt::format("out of device memory: {} bytes asked for, {} of {} in use", bytes, in_use_, size_)};
  }
  align = std::max(align, page_bytes);
  std::uint64_t address = round_up(next_, align);
  if (address + footprint(bytes) <= base_ + reserved_) {
    next_ = address + footprint(bytes);
  } else {
    address = place_in_freed(bytes, align);
  }
  if (address == 0 || !map_up_to(address + footprint(bytes))) {
    return Diagnostic{
        fmt::format("out of device addresses: {} bytes asked for, {} of {} in use", bytes, in_use_, size_)};
  }
  in_use_ += bytes;
  allocations_[address] = Allocation{address, bytes, std::move(what), true, is_constant, sequence_++};
  return address;
}

Result<Done> DeviceMemory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) {
    return Diagnostic{fmt::format("{:#x} is not the begin of an allocation", address)};
  }
  Allocation& allocation = found->second;
  if (!allocation.is_live) {
    return Diagnostic{fmt::format("{} at {:#x} was freed before", allocation.what, address)};
  }
  allocation.is_live = false;
  in_use_ -= allocation.bytes;
  // The host gets the pages back; they read as zero when the range is used again.
  madvise(reinterpret_cast<void*>(address), round_up(allocation.bytes, page_bytes), MADV_DONTNEED);
  return Done{};
}

std::optional<Allocation> DeviceMemory::last_before(std::uint64_t address) const {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) {
    return std::nullopt;
  }
  return std::prev(after)->second;
}

std::optional<Allocation> DeviceMemory::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  std::optional<Allocation> allocation = last_before(address);
  if (allocation && address - allocation->address < allocation->bytes) {
    return allocation;
  }
  return std::nullopt;
}

std::optional<Allocation> DeviceMemory::nearest(std::uint64_t address) const {
  if (address - base_ >= reserved_) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const auto after = allocations_.upper_bound(address);
  const std::optional<Allocation> before = last_before(address);
  if (before && address - before->address < before->bytes) {
    return before;
  }
  // Only a near miss says something about an allocation; anything else is a wild pointer.
  constexpr std::uint64_t near_bytes = 1ull << 30;
  const std::uint64_t past = before ? address - (before->address + before->bytes) : near_bytes;
  const std::uint64_t ahead = after != allocations_.end() ? after->first - address : near_bytes;
  if (std::min(past, ahead) >= near_bytes) {
    return std::nullopt;
  }
  return past <= ahead ? before : after->second;
}

std::string DeviceMemory::describe(std::uint64_t address) const {
  if (address < 4096) {
    return "a null pointer, or an index from one";
  }
  const std::optional<Allocation> near = nearest(address);
  if (!near) {
    return "not an address of this device's memory";
  }
  return fmt::format("{} {}{} ({} bytes at {:#x})", near->place(address), near->is_live ? "" : "freed ", near->what,
                     near->bytes, near->address);
}

std::vector<Allocation> DeviceMemory::live() const {
  const std::lock_guard lock(mutex_);
  std::vector<Allocation> found;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.is_live) {
      found.push_back(allocation);
    }
  }
  return found;
}

std::uint64_t DeviceMemory::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

}  // namespace flashmoe::vgpu::memory
