// Element types by the names that frameworks give them: those with kernels or a meaning here, and those that people
// try, so that an error can name them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dlpack_abi.hpp"

namespace flashmoe::python {

// X(enumerator, name, DLPack's type code, bits); the frequent ones first.
#define FMS_SCALAR_TYPES(X)                                              \
  X(kF16, "float16", dlpack::kFloat, 16)                                 \
  X(kBF16, "bfloat16", dlpack::kBfloat, 16)                              \
  X(kF32, "float32", dlpack::kFloat, 32)                                 \
  X(kI32, "int32", dlpack::kInt, 32)                                     \
  X(kI64, "int64", dlpack::kInt, 64)                                     \
  X(kBool, "bool", dlpack::kBool, 8)                                     \
  X(kF64, "float64", dlpack::kFloat, 64)                                 \
  X(kI8, "int8", dlpack::kInt, 8)                                        \
  X(kI16, "int16", dlpack::kInt, 16)                                     \
  X(kU8, "uint8", dlpack::kUInt, 8)                                      \
  X(kU16, "uint16", dlpack::kUInt, 16)                                   \
  X(kU32, "uint32", dlpack::kUInt, 32)                                   \
  X(kU64, "uint64", dlpack::kUInt, 64)                                   \
  X(kC64, "complex64", dlpack::kComplex, 64)                             \
  X(kC128, "complex128", dlpack::kComplex, 128)                          \
  X(kF8E3M4, "float8_e3m4", dlpack::kFloat8E3M4, 8)                      \
  X(kF8E4M3, "float8_e4m3", dlpack::kFloat8E4M3, 8)                      \
  X(kF8E4M3B11FNUZ, "float8_e4m3b11fnuz", dlpack::kFloat8E4M3B11FNUZ, 8) \
  X(kF8E4M3FN, "float8_e4m3fn", dlpack::kFloat8E4M3FN, 8)                \
  X(kF8E4M3FNUZ, "float8_e4m3fnuz", dlpack::kFloat8E4M3FNUZ, 8)          \
  X(kF8E5M2, "float8_e5m2", dlpack::kFloat8E5M2, 8)                      \
  X(kF8E5M2FNUZ, "float8_e5m2fnuz", dlpack::kFloat8E5M2FNUZ, 8)          \
  X(kF8E8M0FNU, "float8_e8m0fnu", dlpack::kFloat8E8M0FNU, 8)

enum class ScalarType : uint8_t {
#define FMS_ENUMERATOR(type, name, code, bits) type,
  FMS_SCALAR_TYPES(FMS_ENUMERATOR)
#undef FMS_ENUMERATOR
      kOther
};

struct ScalarTypeRow {
  ScalarType type;
  const char* name;
  uint8_t dlpack_code;
  uint8_t bits;
};

inline constexpr std::array kScalarTypes{
#define FMS_ROW(type, name, code, bits) ScalarTypeRow{ScalarType::type, name, code, bits},
    FMS_SCALAR_TYPES(FMS_ROW)
#undef FMS_ROW
};
#undef FMS_SCALAR_TYPES

constexpr const char* scalar_type_name(ScalarType type) {
  return type == ScalarType::kOther ? "another dtype" : kScalarTypes[static_cast<size_t>(type)].name;
}

constexpr ScalarType scalar_type_named(std::string_view name) {
  for (const ScalarTypeRow& row : kScalarTypes) {
    if (name == row.name) {
      return row.type;
    }
  }
  return ScalarType::kOther;
}

constexpr ScalarType scalar_type_of(dlpack::DataType type) {
  for (const ScalarTypeRow& row : kScalarTypes) {
    if (type.lanes == 1 && type.code == row.dlpack_code && type.bits == row.bits) {
      return row.type;
    }
  }
  return ScalarType::kOther;
}

constexpr dlpack::DataType dlpack_type_of(ScalarType type) {  // not for kOther
  const ScalarTypeRow& row = kScalarTypes[static_cast<size_t>(type)];
  return {row.dlpack_code, row.bits, 1};
}

constexpr bool is_float8(ScalarType type) {
  return type >= ScalarType::kF8E3M4 && type <= ScalarType::kF8E8M0FNU;
}

}  // namespace flashmoe::python
