// Copies of 16 bytes from global to shared memory that do not pass through registers. A thread's copies complete in
// groups; others see them after the thread has waited and both have met at a barrier.
#pragma once

#include "kernels/cuda/atoms/types.cuh"

namespace flashmoe::cuda {

// base + row * row_bytes in one instruction, which the compiler would take apart to share terms.
FMS_DEVICE const unsigned char* row_address(const unsigned char* base, int row, int row_bytes) {
  const unsigned char* address;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(address) : "r"(row), "r"(row_bytes), "l"(base));
  return address;
}
template <int Row>
FMS_DEVICE const unsigned char* row_address(const unsigned char* base, Constant<Row>, int row_bytes) {
  if constexpr (Row == 0) return base;
  const unsigned char* address;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(address) : "r"(row_bytes), "n"(Row), "l"(base));
  return address;
}

// Zeros when !is_there, and then nothing is read. Not kept in the first-level cache: keys and values are read once by a
// CTA. Offsets are constants, so that they cost no instruction.
template <int ToOffset = 0, int FromOffset = 0>
FMS_DEVICE void copy_async_or_zero(uint32 to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0+%3], [%1+%4], 16, %2;" ::"r"(to), "l"(from),
               "r"(is_there ? 16 : 0), "n"(ToOffset), "n"(FromOffset)
               : "memory");
}
FMS_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// All but the last `Pending` groups of this thread have landed.
template <int Pending>
FMS_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace flashmoe::cuda
