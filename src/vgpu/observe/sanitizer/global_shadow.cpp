#include "vgpu/observe/sanitizer/global_shadow.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace flashmoe::vgpu::observe {
namespace {

// Room behind the last byte, so that eight bytes can be read at once anywhere.
constexpr std::size_t slack = 64;

// A hole ends where the next member is aligned and begins where the last one, which needs less, ended.
bool is_hole(std::uint64_t begin, std::uint64_t end) {
  for (const std::uint64_t align : {2, 4, 8, 16}) {
    if (end % align == 0 && begin % align != 0 && end - begin < align) return true;
  }
  return false;
}

// One struct may have any hole; in an array of them they come at equal steps.
constexpr std::uint64_t most_bytes_of_one_struct = 64;

}  // namespace

Result<std::unique_ptr<GlobalShadow>> GlobalShadow::create(std::uint64_t base, std::uint64_t bytes) {
  std::unique_ptr<GlobalShadow> shadow(new GlobalShadow());
  shadow->base_ = base;
  shadow->size_ = bytes;
  shadow->mapped_ = bytes / 8 + slack;
  void* place =
      mmap(nullptr, shadow->mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    return Diagnostic{.message = "no address space for the record of initialised bytes",
                      .fix = "give the virtual device less memory, or switch initcheck off"};
  }
  shadow->bits_ = static_cast<std::uint8_t*>(place);
  return shadow;
}

GlobalShadow::~GlobalShadow() {
  if (bits_ != nullptr) munmap(bits_, mapped_);
}

bool GlobalShadow::clamp(std::uint64_t& address, std::uint64_t& bytes) const {
  if (address < base_ || address - base_ >= size_) return false;
  address -= base_;
  bytes = std::min(bytes, size_ - address);
  return bytes > 0;
}

void GlobalShadow::set(std::uint64_t offset, std::uint64_t bytes, bool value) {
  std::uint64_t end = offset + bytes;
  const auto put = [&](std::uint64_t at) {
    const auto bit = static_cast<std::uint8_t>(1u << (at & 7));
    bits_[at >> 3] = static_cast<std::uint8_t>(value ? bits_[at >> 3] | bit : bits_[at >> 3] & ~bit);
  };
  for (; offset < end && (offset & 7) != 0; ++offset) put(offset);
  for (; end > offset && (end & 7) != 0; --end) put(end - 1);
  if (end > offset) std::memset(bits_ + (offset >> 3), value ? 0xff : 0, (end - offset) >> 3);
}

void GlobalShadow::mark_initialised(std::uint64_t address, std::uint64_t bytes) {
  if (clamp(address, bytes)) set(address, bytes, true);
}

void GlobalShadow::mark_uninitialised(std::uint64_t address, std::uint64_t bytes) {
  if (clamp(address, bytes)) set(address, bytes, false);
}

void GlobalShadow::copy(std::uint64_t destination, std::uint64_t source, std::uint64_t bytes) {
  if (trusts_all_ || is_initialised(source, bytes)) {
    mark_initialised(destination, bytes);
    return;
  }
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if (is_initialised(source + i, 1)) {
      mark_initialised(destination + i, 1);
    } else {
      mark_uninitialised(destination + i, 1);
    }
  }
}

GlobalShadow::Unset GlobalShadow::unset(std::uint64_t address, std::uint64_t bytes) const {
  Unset found;
  if (is_initialised(address, bytes)) return found;
  bool holes = true, equal_steps = true;
  std::uint64_t runs = 0, last_begin = 0, step = 0;
  for (std::uint64_t at = 0; at < bytes;) {
    if (is_initialised(address + at, 1)) {
      ++at;
      continue;
    }
    const std::uint64_t begin = at;
    while (at < bytes && !is_initialised(address + at, 1)) ++at;
    if (runs == 0) found.first = begin;
    if (runs == 1) step = begin - last_begin;
    equal_steps = equal_steps && (runs < 2 || begin - last_begin == step);
    holes = holes && is_hole(begin, at);
    found.bytes += at - begin;
    last_begin = begin;
    ++runs;
  }
  const bool in_array = runs > 1 && equal_steps && found.first < step && bytes - last_begin <= step;
  found.is_padding = holes && (in_array || bytes <= most_bytes_of_one_struct);
  return found;
}

bool GlobalShadow::is_initialised(std::uint64_t address, std::uint64_t bytes) const {
  if (trusts_all_ || !clamp(address, bytes)) return true;
  const std::uint64_t end = address + bytes;
  const auto all_set = [&](std::uint64_t at, std::uint64_t count) {  // count <= 57: whatever bit of a byte it begins at
    std::uint64_t word = 0;
    std::memcpy(&word, bits_ + (at >> 3), sizeof word);
    const std::uint64_t wanted = (std::uint64_t{1} << count) - 1;
    return (word >> (at & 7) & wanted) == wanted;
  };
  constexpr std::uint64_t at_once = 56;
  std::uint64_t at = address;
  for (; end - at > at_once; at += at_once)
    if (!all_set(at, at_once)) return false;
  return all_set(at, end - at);
}

}  // namespace flashmoe::vgpu::observe
