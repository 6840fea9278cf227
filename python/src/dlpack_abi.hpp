// The part of the DLPack 1.x C ABI that the binding uses: the borrowed tensor, the managed tensor, the capsules of
// `__dlpack__` and the table of functions behind `__dlpack_c_exchange_api__`. Declared here because the module must
// build without torch, and the dlpack.h of the distributions is older than the table. The names differ from dlpack.h's
// so that both can be included; python/src/dlpack_abi_check.cpp compares the layouts with torch's copy whenever torch
// is there at build time. Specification: https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

namespace flashmoe::python::dlpack {

inline constexpr const char* kExchangeApiAttribute = "__dlpack_c_exchange_api__";
inline constexpr const char* kExchangeApiCapsule = "dlpack_exchange_api";
inline constexpr uint32_t kMajorVersion = 1;
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";  // of a ManagedTensor
inline constexpr const char* kUnversionedCapsule = "dltensor";          // of an UnversionedTensor
inline constexpr uint64_t kReadOnlyFlag = 1;

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E3M4 = 7,
  kFloat8E4M3 = 8,
  kFloat8E4M3B11FNUZ = 9,
  kFloat8E4M3FN = 10,
  kFloat8E4M3FNUZ = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2FNUZ = 13,
  kFloat8E8M0FNU = 14
};

struct Device {
  int32_t type;
  int32_t index;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null before DLPack 1.2: contiguous
  uint64_t byte_offset;
};

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensor {
  Version version;
  void* manager_context;
  void (*deleter)(ManagedTensor* self);
  uint64_t flags;
  Tensor tensor;
};

// Before DLPack 1.0.
struct UnversionedTensor {
  Tensor tensor;
  void* manager_context;
  void (*deleter)(UnversionedTensor* self);
};

struct ExchangeApiHeader {
  Version version;
  ExchangeApiHeader* previous_api;
};

using SetError = void (*)(void* error_context, const char* kind, const char* message);

struct ExchangeApi {
  ExchangeApiHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensor** out, void* error_context, SetError set_error);
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*managed_to_object)(ManagedTensor* tensor, void** out_object);  // steals the tensor
  int (*borrow_from_object)(void* object, Tensor* out);                // may be null
  int (*current_stream)(int32_t device_type, int32_t device_index, void** out_stream);
};

}  // namespace flashmoe::python::dlpack
