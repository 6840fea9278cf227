#include "kernels/cuda/launch/instances.hpp"

#include "kernels/cuda/attention/params.hpp"

namespace flashmoe::cuda {
namespace {

constexpr fms_dtype Half = FMS_F16, BFloat16 = FMS_BF16;

constexpr plan::CudaInstance table[] = {
#define FMS_FORWARD(name, element, dim, keys, warps, paged, modified) \
  {#name,        element,  dim,                                       \
   16 * (warps), keys,     32 * (warps),                              \
   paged,        modified, forward_shared_bytes(dim, keys, 16 * (warps))},
#include "kernels/cuda/instances.def"
#undef FMS_FORWARD
};

}  // namespace

std::span<const plan::CudaInstance> instances() {
  return table;
}

}  // namespace flashmoe::cuda
