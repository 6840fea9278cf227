#include "support/allocation_failure.hpp"

#include <cstdlib>
#include <new>

namespace flashmoe::testing {
namespace {

thread_local int64_t until_failure = -1;
thread_local int64_t failed = 0;

bool is_to_fail() {
  if (until_failure < 0 || until_failure-- > 0) return false;
  ++failed;
  return true;
}

void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void fail_allocation(int64_t at) {
  until_failure = at;
}

int64_t failed_allocations() {
  return failed;
}

}  // namespace flashmoe::testing

using flashmoe::testing::checked;
using flashmoe::testing::is_to_fail;

// All of them: a sanitizer has operators of its own, and memory of one kind must not be freed by the other.
namespace {

void* plain(std::size_t bytes) {
  return is_to_fail() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return is_to_fail() ? nullptr : std::aligned_alloc(step, (bytes + step - 1) / step * step);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return checked(plain(bytes));
}
void* operator new[](std::size_t bytes) {
  return checked(plain(bytes));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return plain(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return plain(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return checked(aligned(bytes, alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
