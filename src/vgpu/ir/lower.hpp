// AST -> Kernel: names resolved, forms checked against the op table, control flow analysed (a reconvergence point
// stands at the immediate post-dominator of every branch that can diverge), registers packed into as few slots as their
// lifetimes allow, the function of each op chosen.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "support/result.hpp"
#include "vgpu/ir/kernel.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

// What lowering asks of its surroundings.
struct Surroundings {
  // The function that runs this form; nullptr: unsupported, which lowering reports with place and text.
  std::function<Handler(const Form&)> handler{};
  // Device address of a module-scope .global or .const variable; 0: there is none of that name.
  std::function<std::uint64_t(std::string_view)> address_of{};
  // A number for a function whose address is taken; called through, it finds the same function.
  std::function<std::uint64_t(std::string_view)> function_address{};
  bool red_zones = false;  // between arrays in shared memory, for runs that memcheck watches
};

[[nodiscard]] Result<Kernel> lower(const ptx::Module& module, std::string_view entry, const Surroundings& surroundings);

// Entries that cannot be executed, with the first instruction on their way that is not: the others can.
using Unsupported = std::map<std::string, Diagnostic, std::less<>>;

// Every instruction of every function against the op table, without lowering: all errors a driver reports at load time.
[[nodiscard]] Result<Unsupported> verify(const ptx::Module& module);

}  // namespace flashmoe::vgpu::ir
