// Compiled only when torch's headers are there: our declaration of the DLPack ABI has the layout of the public one.
#include "dlpack_abi.hpp"

#include <ATen/dlpack.h>

#include <cstddef>

namespace ours = flashmoe::python::dlpack;

static_assert(ours::kMajorVersion == DLPACK_MAJOR_VERSION);
static_assert(ours::kCpu == static_cast<int>(kDLCPU) && ours::kCuda == static_cast<int>(kDLCUDA));
static_assert(ours::kCudaHost == static_cast<int>(kDLCUDAHost));
static_assert(ours::kCudaManaged == static_cast<int>(kDLCUDAManaged));
static_assert(ours::kFloat == static_cast<int>(kDLFloat) && ours::kBfloat == static_cast<int>(kDLBfloat));
static_assert(ours::kComplex == static_cast<int>(kDLComplex) && ours::kUInt == static_cast<int>(kDLUInt));
static_assert(ours::kFloat8E3M4 == static_cast<int>(kDLFloat8_e3m4));
static_assert(ours::kFloat8E4M3FN == static_cast<int>(kDLFloat8_e4m3fn));
static_assert(ours::kFloat8E8M0FNU == static_cast<int>(kDLFloat8_e8m0fnu));
static_assert(ours::kReadOnlyFlag == DLPACK_FLAG_BITMASK_READ_ONLY);
static_assert(ours::kInt == static_cast<int>(kDLInt) && ours::kBool == static_cast<int>(kDLBool));

static_assert(sizeof(ours::Tensor) == sizeof(DLTensor));
static_assert(offsetof(ours::Tensor, device) == offsetof(DLTensor, device));
static_assert(offsetof(ours::Tensor, ndim) == offsetof(DLTensor, ndim));
static_assert(offsetof(ours::Tensor, dtype) == offsetof(DLTensor, dtype));
static_assert(offsetof(ours::Tensor, shape) == offsetof(DLTensor, shape));
static_assert(offsetof(ours::Tensor, strides) == offsetof(DLTensor, strides));
static_assert(offsetof(ours::Tensor, byte_offset) == offsetof(DLTensor, byte_offset));

static_assert(sizeof(ours::ManagedTensor) == sizeof(DLManagedTensorVersioned));
static_assert(offsetof(ours::ManagedTensor, deleter) == offsetof(DLManagedTensorVersioned, deleter));
static_assert(offsetof(ours::ManagedTensor, flags) == offsetof(DLManagedTensorVersioned, flags));
static_assert(offsetof(ours::ManagedTensor, tensor) == offsetof(DLManagedTensorVersioned, dl_tensor));

static_assert(sizeof(ours::UnversionedTensor) == sizeof(DLManagedTensor));
static_assert(offsetof(ours::UnversionedTensor, tensor) == offsetof(DLManagedTensor, dl_tensor));

static_assert(sizeof(ours::ExchangeApi) == sizeof(DLPackExchangeAPI));
static_assert(offsetof(ours::ExchangeApi, allocate) == offsetof(DLPackExchangeAPI, managed_tensor_allocator));
static_assert(offsetof(ours::ExchangeApi, managed_to_object) ==
              offsetof(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync));
static_assert(offsetof(ours::ExchangeApi, borrow_from_object) ==
              offsetof(DLPackExchangeAPI, dltensor_from_py_object_no_sync));
