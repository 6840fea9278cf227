#include "tensor_checks.hpp"

#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

namespace flashmoe::python {

bool parse_layout(const char* text, Layout& layout, Failure& failure) {
  if (std::strcmp(text, "bhsd") == 0) {
    layout = Layout::kBhsd;
  } else if (std::strcmp(text, "bshd") == 0) {
    layout = Layout::kBshd;
  } else {
    return fail_value(failure, std::string("layout is '") + text + "'; it must be 'bhsd' or 'bshd'");
  }
  return true;
}

Axes axes_of(Layout layout, bool packed) {
  if (layout == Layout::kBhsd) {
    return packed ? Axes{kAbsent, 0, 1} : Axes{0, 1, 2};
  }
  return packed ? Axes{kAbsent, 1, 0} : Axes{0, 2, 1};
}

const char* axes_text(Layout layout, bool packed, bool paged) {
  if (layout == Layout::kBhsd) {
    return packed ? "(heads, total, dim)" : paged ? "(pages, heads, page_size, dim)" : "(batch, heads, seq, dim)";
  }
  return packed ? "(total, heads, dim)" : paged ? "(pages, page_size, heads, dim)" : "(batch, seq, heads, dim)";
}

fms_strides strides_of(const TensorView& view, Axes axes) {
  return {axes.batch == kAbsent ? 0 : view.strides[axes.batch], view.strides[axes.head], view.strides[axes.seq]};
}

bool to_fms_dtype(ScalarType type, fms_dtype& dtype) {
  switch (type) {
    case ScalarType::kF16:
      dtype = FMS_F16;
      return true;
    case ScalarType::kBF16:
      dtype = FMS_BF16;
      return true;
    case ScalarType::kF32:
      dtype = FMS_F32;
      return true;
    default:
      return false;
  }
}

bool fail_dtype(const char* name, ScalarType type, Failure& failure) {
  std::string message =
      std::string(name) + " is " + scalar_type_name(type) + "; it must be float16, bfloat16 or float32";
  if (is_float8(type)) {
    message += ": there are no kernels for 8-bit floats yet, so convert it first, with its scale";
  }
  return fail_value(failure, std::move(message));
}

std::string place_text(Place place) {
  switch (place.device) {
    case DeviceType::kCpu:
      return "the CPU";
    case DeviceType::kCuda:
      return "cuda:" + std::to_string(place.index);
    case DeviceType::kMeta:
      return "the meta device";
    case DeviceType::kOther:
      break;
  }
  return "a device that is neither the CPU nor a CUDA device";
}

bool parse_place(std::string_view text, Place& place) {
  constexpr std::string_view kCuda = "cuda";
  if (text == "cpu") {
    place = Place{};
    return true;
  }
  if (text == kCuda) {
    place = {DeviceType::kCuda, 0};
    return true;
  }
  if (text.substr(0, kCuda.size() + 1) != "cuda:") {
    return false;
  }
  place.device = DeviceType::kCuda;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + kCuda.size() + 1, end, place.index);
  return error == std::errc{} && stopped == end && place.index >= 0;
}

bool check_place(const char* name, const TensorView& view, Place where, Failure& failure) {
  if (view.place.device == DeviceType::kOther) {
    return fail(failure, FailureKind::kNotSupported, std::string(name) + " is on " + place_text(view.place));
  }
  if (view.place == where) {
    return true;
  }
  return fail_value(failure, std::string(name) + " is on " + place_text(view.place) + ", but the call runs on " +
                                 place_text(where) + "; they must be the same");
}

bool check_aligned(const char* name, const TensorView& view, size_t element_bytes, Failure& failure) {
  if (reinterpret_cast<uintptr_t>(view.data) % element_bytes == 0) {
    return true;
  }
  return fail_value(failure, std::string(name) + " is not aligned to its element size; copy it");
}

bool check_data(const char* name, const TensorView& view, Place where, int ndim, const char* axes, Failure& failure) {
  if (!check_place(name, view, where, failure)) {
    return false;
  }
  if (view.ndim != ndim) {
    return fail_value(failure, std::string(name) + " has shape " + shape_text(view) + "; expected " + axes);
  }
  const int last = ndim - 1;
  if (view.shape[last] > 1 && view.strides[last] != 1) {
    return fail_value(failure, std::string(name) + " has stride " + std::to_string(view.strides[last]) +
                                   " in its last dimension; it must be 1 (make it contiguous)");
  }
  return check_aligned(name, view, is_float8(view.dtype) ? 1 : (view.dtype == ScalarType::kF32 ? 4 : 2), failure);
}

bool check_same_dtype(const char* name, const TensorView& view, const char* other_name, const TensorView& other,
                      Failure& failure) {
  if (view.dtype == other.dtype) {
    return true;
  }
  return fail_value(failure, std::string(name) + " is " + scalar_type_name(view.dtype) + ", but " + other_name +
                                 " is " + scalar_type_name(other.dtype) + "; they must be the same");
}

bool check_index_array(const char* name, const TensorView& view, Place where, int ndim, int64_t length,
                       const char* length_text, Failure& failure) {
  if (!check_place(name, view, where, failure)) {
    return false;
  }
  if (view.dtype != ScalarType::kI32) {
    return fail_value(failure, std::string(name) + " is " + scalar_type_name(view.dtype) +
                                   "; it must be int32, on the CPU also int64 (torch: " + name +
                                   ".int(), NumPy: " + name + ".astype('int32'))");
  }
  if (view.ndim != ndim || view.shape[0] != length) {
    return fail_value(failure, std::string(name) + " has shape " + shape_text(view) + "; expected (" + length_text +
                                   " = " + std::to_string(length) + (ndim == 2 ? ", pages)" : ",)"));
  }
  const int last = ndim - 1;
  if (view.shape[last] > 1 && view.strides[last] != 1) {
    return fail_value(failure, std::string(name) + " must be contiguous");
  }
  return check_aligned(name, view, 4, failure);
}

std::string shape_text(const TensorView& view) {
  std::string text = "(";
  for (int axis = 0; axis < view.ndim; ++axis) {
    text += std::to_string(view.shape[axis]);
    text += axis + 1 < view.ndim ? ", " : view.ndim == 1 ? "," : "";
  }
  return text + ")";
}
}  // namespace flashmoe::python
