// Division by a number that the host knows (params.hpp).
#pragma once

#include "kernels/cuda/atoms/types.cuh"
#include "kernels/cuda/attention/params.hpp"

namespace flashmoe::cuda {

FMS_DEVICE int divide(int n, Division by) {
  return static_cast<int>(__umulhi(2 * static_cast<uint32>(n), by.magic) >> by.shift);
}

}  // namespace flashmoe::cuda
