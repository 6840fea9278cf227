// Where the tensors of one workload lie: shapes and strides evaluated, and their places in the two shared regions (the
// inputs, which the kernel can only read, and the outputs with stages and scratch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct TensorLayout {
  std::string name{};
  TensorRole role = TensorRole::input;
  cudadent_dtype dtype = CUDADENT_F32;
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> stride{};  // in elements
  std::int64_t count = 0;              // product of the shape
  std::int64_t extent = 0;             // elements from the first to behind the last, gaps of the strides included
  std::size_t bytes = 0;               // of the extent
  std::size_t offset = 0;              // in its region, of set 0
  bool row_major = false;              // and without gaps: an element's place is its index
  bool absent = false;                 // a stage nobody asked for: the entry gets a null pointer

  [[nodiscard]] std::size_t element_offset(std::int64_t linear_index) const;   // in bytes, row-major index
  [[nodiscard]] std::vector<std::int64_t> position(std::int64_t index) const;  // row-major index -> coordinates
};

struct Layout {
  std::vector<TensorLayout> tensors;  // in the project's order
  std::size_t input_bytes = 0;        // of one set
  std::size_t output_bytes = 0;
};

// Behind every output lie this many bytes that must stay as they are.
inline constexpr std::size_t canary_bytes = 64;

// Timed calls go without stages.
[[nodiscard]] Result<Layout> layout_of(const Project& project, const Values& workload, bool with_stages = true);

}  // namespace flashmoe::workflow
