// Host memory that was registered (cuMemHostRegister). Kernels reach device memory alone, so whoever asks for the
// device address gets that of a mirror: a launch finds there what the host has, and the host gets what the launch
// changed. Copies and fills go to the host's own memory. (What host and kernel write to each other during a launch is
// not seen.)
#pragma once

#include "vgpu/driver/state.hpp"

namespace flashmoe::vgpu::driver {

// Of a host address in registered memory; 0: it is in none, or there is no room for a mirror.
[[nodiscard]] CUdeviceptr mirror_of(State& all, Context& context, const void* host);
// The host's own memory where the address is in a mirror, else the address itself.
[[nodiscard]] std::uint64_t behind_mirror(const State& all, std::uint64_t address);

// While a launch runs.
class Mirrors {
 public:
  explicit Mirrors(const State& all);
  ~Mirrors();
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;

 private:
  struct Mirror {
    std::uint8_t* host;
    const std::uint8_t* device;
    std::vector<std::uint8_t> before;
  };
  std::vector<Mirror> mirrors_{};
};

}  // namespace flashmoe::vgpu::driver
