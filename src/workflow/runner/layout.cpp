#include "workflow/runner/layout.hpp"

#include <fmt/format.h>

#include <cmath>

#include "workflow/project/point.hpp"
#include "workflow/runner/element.hpp"

namespace flashmoe::workflow {
namespace {

// Larger tensors than this are a slip in an expression, not a workload of this machine.
constexpr std::int64_t max_tensor_bytes = std::int64_t{2} << 30;

Result<std::int64_t> whole_number(const Project& project, const TensorSpec& spec, const std::string& expression,
                                  const Values& values, const char* key) {
  const auto value = evaluate(expression, values);
  const std::string path = "tensors." + spec.name + "." + key;
  if (!value) {
    Diagnostic problem = value.error();
    problem.file = project.file;
    problem.line = spec.line;
    problem.key = path;
    return problem;
  }
  if (!(*value >= 0) || *value != std::floor(*value) || *value > static_cast<double>(max_tensor_bytes)) {
    return Diagnostic{.message = fmt::format("'{}' is {}, which is not a whole number from 0 to {}", expression, *value,
                                             max_tensor_bytes),
                      .fix = "correct the expression or the parameters of the workload",
                      .file = project.file,
                      .line = spec.line,
                      .key = path};
  }
  return static_cast<std::int64_t>(*value);
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

std::size_t TensorLayout::element_offset(std::int64_t linear_index) const {
  if (row_major) return static_cast<std::size_t>(linear_index) * bytes_per_element(dtype);
  std::int64_t element = 0;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    element += linear_index % shape[axis] * stride[axis];
    linear_index /= shape[axis];
  }
  return static_cast<std::size_t>(element) * bytes_per_element(dtype);
}

std::vector<std::int64_t> TensorLayout::position(std::int64_t index) const {
  std::vector<std::int64_t> coordinates(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    coordinates[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return coordinates;
}

Result<Layout> layout_of(const Project& project, const Values& workload, bool with_stages) {
  Layout layout;
  const Values at_point = with_point(project, workload);
  for (const TensorSpec& spec : project.tensors) {
    const Values& values = spec.role == TensorRole::scratch ? at_point : workload;
    TensorLayout tensor;
    tensor.name = spec.name;
    tensor.role = spec.role;
    tensor.dtype = spec.dtype;
    tensor.count = 1;
    for (const std::string& expression : spec.shape) {
      const auto size = whole_number(project, spec, expression, values, "shape");
      if (!size) return size.error();
      tensor.shape.push_back(*size);
      tensor.count *= *size;
      if (tensor.count > max_tensor_bytes) break;
    }
    for (const std::string& expression : spec.stride) {
      const auto stride = whole_number(project, spec, expression, values, "stride");
      if (!stride) return stride.error();
      tensor.stride.push_back(*stride);
    }
    std::vector<std::int64_t> row_major(tensor.shape.size());
    std::int64_t next = 1;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
      row_major[axis] = next;
      next *= tensor.shape[axis];
    }
    if (tensor.stride.empty()) tensor.stride = row_major;
    tensor.row_major = tensor.stride == row_major;
    if (tensor.stride.size() != tensor.shape.size() || tensor.shape.size() > CUDADENT_MAX_RANK) {
      return Diagnostic{.message = fmt::format("{} sizes and {} strides; both must be the same, at most {}",
                                               tensor.shape.size(), tensor.stride.size(), int{CUDADENT_MAX_RANK}),
                        .fix = "give one stride per axis, or leave 'stride' out for row-major",
                        .file = project.file,
                        .line = spec.line,
                        .key = "tensors." + spec.name + ".stride"};
    }
    tensor.extent = tensor.count == 0 ? 0 : 1;
    for (std::size_t axis = 0; axis < tensor.shape.size() && tensor.count != 0; ++axis) {
      tensor.extent += (tensor.shape[axis] - 1) * tensor.stride[axis];
    }
    tensor.bytes = static_cast<std::size_t>(tensor.extent) * bytes_per_element(tensor.dtype);
    if (tensor.count > max_tensor_bytes || tensor.bytes > static_cast<std::size_t>(max_tensor_bytes)) {
      return Diagnostic{.message = fmt::format("the tensor has more than {} bytes", max_tensor_bytes),
                        .fix = "make the workload smaller",
                        .file = project.file,
                        .line = spec.line,
                        .key = "tensors." + spec.name + ".shape"};
    }
    if (tensor.role == TensorRole::stage && !with_stages) {
      tensor.absent = true;
      tensor.count = tensor.extent = 0;
      tensor.bytes = 0;
      layout.tensors.push_back(std::move(tensor));
      continue;
    }
    std::size_t& region = tensor.role == TensorRole::input ? layout.input_bytes : layout.output_bytes;
    tensor.offset = region;
    region += rounded_up(tensor.bytes) + (tensor.role == TensorRole::input ? 0 : canary_bytes);
    layout.tensors.push_back(std::move(tensor));
  }
  return layout;
}

}  // namespace flashmoe::workflow
