// Kernels for tests of lowering, from the text of their body.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "vgpu/ir/lower.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::ir {

inline void nothing(exec::Warp&, const Inst&) {}

inline Surroundings test_surroundings() {
  Surroundings surroundings;
  surroundings.handler = [](const Form&) { return &nothing; };
  surroundings.address_of = [](std::string_view name) { return name == "table" ? 0x10000u : 0u; };
  surroundings.function_address = [](std::string_view name) { return 0x700u + name.size(); };
  return surroundings;
}

inline std::string in_kernel(const std::string& body, const std::string& before = {}) {
  return ".version 9.0\n.target sm_89\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 p0, .param .u32 p1)\n{\n" + body + "\n}\n";
}

inline Kernel lowered(const std::string& text, bool red_zones = false) {
  const auto module = ptx::parse(text, "test.ptx");
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return {};
  Surroundings surroundings = test_surroundings();
  surroundings.red_zones = red_zones;
  auto kernel = lower(*module, "k", surroundings);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().to_string());
  return kernel ? *kernel : Kernel{};
}

}  // namespace flashmoe::vgpu::ir
