// Checks of single arrays and of their axes, shared by attention and merge_states. Failures name the argument.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "failure.hpp"
#include "flashmoe/flashmoe.h"
#include "tensor_view.hpp"

namespace flashmoe::python {

enum class Layout : uint8_t { kBhsd, kBshd };

// The axes' names in order. Packed (ragged) arrays drop the b; the b of paged K and V counts pages.
[[nodiscard]] bool parse_layout(const char* text, Layout& layout, Failure& failure);

inline constexpr int kAbsent = -1;

struct Axes {
  int batch, head, seq;
};

[[nodiscard]] Axes axes_of(Layout layout, bool packed);
[[nodiscard]] const char* axes_text(Layout layout, bool packed, bool paged);
[[nodiscard]] fms_strides strides_of(const TensorView& view, Axes axes);
[[nodiscard]] std::string shape_text(const TensorView& view);         // "(1, 8, 128, 64)"
[[nodiscard]] std::string place_text(Place place);                    // "cuda:0"
[[nodiscard]] bool parse_place(std::string_view text, Place& place);  // "cpu", "cuda" or "cuda:<n>"

// False for what the library has no kernels for; no failure is set.
[[nodiscard]] bool to_fms_dtype(ScalarType type, fms_dtype& dtype);

// Says that an array's type has no kernels, and what to do.
bool fail_dtype(const char* name, ScalarType type, Failure& failure);

// Whether the array is where the call runs: a place that has kernels.
[[nodiscard]] bool check_place(const char* name, const TensorView& view, Place where, Failure& failure);
[[nodiscard]] bool check_aligned(const char* name, const TensorView& view, size_t element_bytes, Failure& failure);
// q, k, v, out and the parts of merge_states.
[[nodiscard]] bool check_data(const char* name, const TensorView& view, Place where, int ndim, const char* axes,
                              Failure& failure);
[[nodiscard]] bool check_same_dtype(const char* name, const TensorView& view, const char* other_name,
                                    const TensorView& other, Failure& failure);
// int32 of shape (length,) or (length, any).
[[nodiscard]] bool check_index_array(const char* name, const TensorView& view, Place where, int ndim, int64_t length,
                                     const char* length_text, Failure& failure);

// An array without elements may have no address; the library wants one for every argument that it is told of.
template <typename T>
T* address_of(const TensorView& view) {
  alignas(64) static char nothing[64];
  return static_cast<T*>(view.data != nullptr ? view.data : nothing);
}

}  // namespace flashmoe::python
