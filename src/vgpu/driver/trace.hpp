// VGPU_TRACE=<file>: a line of JSON for each call of an exported function, appended with one write, so that several
// processes may share the file. tests/vgpu/driver_rules.py reads it.
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::driver {

// The arguments as gate.cpp found them: 12 of integer class, and the first of those in floating-point registers.
struct TracedCall {
  std::uintptr_t words[12];
  double first_float;
};

}  // namespace flashmoe::vgpu::driver

// What gate.cpp asks, and where it goes then: calls the function of that row, writes the line, returns its answer.
extern "C" {
extern __attribute__((visibility("hidden"))) const bool vgpu_tracing;
__attribute__((visibility("hidden"))) int vgpu_traced_call(unsigned row,
                                                           const flashmoe::vgpu::driver::TracedCall* call);
}
