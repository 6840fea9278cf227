// One form as a kernel of its own: PTX text, what its threads read, and how each of its results is to be compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flashmoe::vgpu::micro {

// What two results may differ in.
struct Tolerance {
  enum class Kind {
    bits,    // nothing
    number,  // a NaN is a NaN, whatever its payload (PTX ISA 9.7.3: the payload is not specified)
    near,    // an approximate function: within the manual's bound
    sum,     // mma: within `relative` of the sum of the magnitudes of all that is added
  };
  Kind kind = Kind::bits;
  double ulps = 0, relative = 0, absolute = 0;
};

struct Field {  // of a thread's record of results
  std::uint32_t offset = 0;
  std::string type{};  // "f16x2", "u32", "b64"
  Tolerance tolerance{};
};

struct MicroKernel {
  std::string form{};
  std::string text{};  // entry "k", parameters: address of the inputs, address of the results
  std::uint32_t threads = 32;
  std::uint32_t input_stride = 64, output_stride = 64;  // bytes a thread
  std::vector<std::uint8_t> input{};
  std::vector<Field> fields{};            // what is not in a field is compared bit for bit
  std::vector<std::uint8_t> constants{};  // contents of the .const variable "table", if the text has one
  std::vector<std::uint8_t> block{};      // a third parameter of 128 bytes, if not empty
};

// Inputs: `threads` records of `input_stride` bytes. Results: `output_stride` bytes a thread, zero at first.
[[nodiscard]] std::string describe(const MicroKernel& kernel);

}  // namespace flashmoe::vgpu::micro
