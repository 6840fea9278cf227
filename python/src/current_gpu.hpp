// The driver launches into the calling thread's current context; which one that is, torch leaves open in a thread that
// has not used CUDA yet.
#pragma once

#include "failure.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

// Makes a GPU's primary context (the one that torch and cudart use) current while it lives; costs one driver query when
// it is current already. Does nothing for the CPU.
class CurrentGpu {
 public:
  CurrentGpu() = default;
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
  ~CurrentGpu();

  [[nodiscard]] bool set(Place where, Failure& failure);

 private:
  bool is_pushed_ = false;
};

}  // namespace flashmoe::python
