// For tests: PTX text to a finished launch.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/state.hpp"
#include "vgpu/ir/lower.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::exec {

// A device with one buffer, and one kernel `k` whose parameters are 64-bit numbers.
class PtxRunner {
 public:
  explicit PtxRunner(std::string_view body_or_module, Mode mode = Mode::fast, std::uint64_t buffer_bytes = 1 << 16,
                     const std::vector<std::pair<std::string, std::string>>& variables = {}) {
    memory.reset(*memory::DeviceMemory::create(1ull << 30));
    buffer_bytes_ = buffer_bytes;
    buffer = *memory->allocate(buffer_bytes, "buffer");
    const std::string header = ".version 8.0\n.target sm_80\n.address_size 64\n";
    const bool is_module = body_or_module.find(".entry") != std::string_view::npos;
    const std::string text = header + (is_module ? std::string(body_or_module)
                                                 : ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n" +
                                                       std::string(body_or_module) + "\n}\n");
    const Result<ptx::Module> module = ptx::parse(text, "test.ptx");
    if (!module) {
      ADD_FAILURE() << module.error().to_string();
      return;
    }
    ir::Surroundings surroundings;
    surroundings.handler = [mode](const ir::Form& form) { return handler(form, mode); };
    surroundings.address_of = [&](std::string_view name) {
      for (const auto& [variable, content] : variables) {
        if (variable == name) {
          const std::uint64_t address = *memory->allocate(content.size() + 1, variable);
          std::memcpy(reinterpret_cast<void*>(address), content.c_str(), content.size() + 1);
          return address;
        }
      }
      return std::uint64_t{0};
    };
    surroundings.function_address = [this](std::string_view name) {
      for (std::size_t i = 0; i < functions_.size(); ++i) {
        if (functions_[i] == name) {
          return std::uint64_t{0x1000} + i * 16;
        }
      }
      functions_.emplace_back(name);
      return std::uint64_t{0x1000} + (functions_.size() - 1) * 16;
    };
    Result<ir::Kernel> lowered = ir::lower(*module, "k", surroundings);
    if (!lowered) {
      ADD_FAILURE() << lowered.error().to_string();
      return;
    }
    kernel = std::move(*lowered);
    launch.kernel = &kernel;
    launch.sm_count = 4;
    launch.resident_ctas_per_sm = 4;
    launch.instruction_budget = 50'000'000;
  }

  PtxRunner(const PtxRunner&) = delete;
  PtxRunner& operator=(const PtxRunner&) = delete;

  Outcome run(std::uint32_t grid, std::uint32_t block, std::vector<std::uint64_t> more_parameters = {}) {
    if (kernel.code.empty()) {
      return {};
    }
    std::memset(reinterpret_cast<void*>(buffer), 0, buffer_bytes_);
    launch.grid = Dim3{grid, 1, 1};
    launch.block = Dim3{block, 1, 1};
    std::vector<std::uint64_t> parameters{buffer};
    parameters.insert(parameters.end(), more_parameters.begin(), more_parameters.end());
    parameters.resize(2);
    launch.parameters.resize(16);
    std::memcpy(launch.parameters.data(), parameters.data(), 16);
    return exec::run(launch, *memory);
  }

  template <class T = std::uint32_t>
  [[nodiscard]] T at(std::size_t index) const {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(buffer + index * sizeof(T)), sizeof(T));
    return value;
  }
  template <class T = std::uint32_t>
  [[nodiscard]] std::vector<T> values(std::size_t count) const {
    std::vector<T> found(count);
    std::memcpy(found.data(), reinterpret_cast<const void*>(buffer), count * sizeof(T));
    return found;
  }

  std::unique_ptr<memory::DeviceMemory> memory{};
  std::uint64_t buffer = 0;
  ir::Kernel kernel{};
  Launch launch{};

 private:
  std::uint64_t buffer_bytes_ = 0;
  std::vector<std::string> functions_{};
};

// Declarations and the usual first lines: %r1 thread, %r2 block, %r3 lane, %rd1 buffer, %rd2 buffer + 4 * global
// thread.
inline std::string prologue() {
  return R"(
  .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .pred %p<20>; .reg .f32 %f<20>; .reg .b16 %h<8>;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd9, [p1];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %laneid; mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r2, %r4, %r1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd2, %rd1, %rd3;
)";
}

}  // namespace flashmoe::vgpu::exec
