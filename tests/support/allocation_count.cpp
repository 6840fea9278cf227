#include "support/allocation_count.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>

namespace flashmoe::testing {
namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

int64_t allocation_count() {
  return allocations;
}

bool allocations_are_counted() {
  const int64_t before = allocations;
  void* volatile memory = std::malloc(1);
  std::free(memory);
  int* volatile number = new int(1);
  delete number;
  return allocations - before == 2;
}

#if FMS_COUNT_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr;
}
}
#endif

}  // namespace flashmoe::testing
