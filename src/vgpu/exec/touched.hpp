// The sectors of device memory that a launch is the first to touch, counted by each of its host threads for its time on
// the virtual clock.
#pragma once

#include <cstdint>

#include "vgpu/memory/footprint.hpp"

namespace flashmoe::vgpu::exec {

struct Touched {
  memory::Footprint* footprint = nullptr;  // none: nobody asks
  std::uint64_t dram_sectors = 0;          // in the lines that are looked at
};
extern constinit thread_local Touched touched;  // of this host thread; the launch's, once its other threads have ended

// Launches that this thread runs as long as it lives are counted.
class CountTouched {
 public:
  explicit CountTouched(memory::Footprint* footprint) {
    if (footprint != nullptr) footprint->begin_launch();
    touched = {footprint, 0};
  }
  ~CountTouched() { touched = {}; }
  CountTouched(const CountTouched&) = delete;
  CountTouched& operator=(const CountTouched&) = delete;
  [[nodiscard]] double dram_bytes() const {
    return static_cast<double>(touched.dram_sectors * memory::Footprint::lines_a_sample *
                               memory::Footprint::sector_bytes);
  }
};

}  // namespace flashmoe::vgpu::exec
