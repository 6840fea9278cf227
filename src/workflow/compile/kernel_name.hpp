// Names of kernels as people write them and as symbol tables hold them, brought to one form.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "images/cubin.hpp"

namespace flashmoe::workflow {

struct KernelName {
  std::string base{};                    // "ops::softmax_kernel"
  std::vector<std::string> arguments{};  // of the template, in one form: "__half", "256"
  std::string parameters{};              // of the function: "float const*, float*, int"; empty when not given
  [[nodiscard]] std::string to_string() const;
  bool operator==(const KernelName& other) const { return base == other.base && arguments == other.arguments; }
};

// "softmax_kernel<half, 256u>" and "void softmax_kernel<__half, 256>(__half const*)" give the same base and arguments.
[[nodiscard]] KernelName parse_kernel_name(const std::string& text);

// "softmax_kernel" of "ops::softmax_kernel".
[[nodiscard]] std::string last_part(const std::string& name);

// The kernel that was declared: the same name, or the only one with that name in any namespace.
[[nodiscard]] const CubinKernel* find_kernel(const Cubin& cubin, const std::string& declared);

struct MissingKernel {
  std::string what;  // what is missing and what is there instead
  std::string fix;   // the line to add or to change
};

// `source` is the file's name, `text` its content.
[[nodiscard]] MissingKernel explain_missing_kernel(const Cubin& cubin, const std::string& declared,
                                                   const std::string& source, const std::string& text);

// The explicit instantiation of the template `name` found in a source text, with its parameters filled in:
// "template __global__ void softmax_kernel<float, 256>(const float* x, float* y, int n);"
[[nodiscard]] std::optional<std::string> instantiation_line(const std::string& text, const KernelName& name);

}  // namespace flashmoe::workflow
