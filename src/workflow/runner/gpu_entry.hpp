// The worker's side of a CUDA kernel: one driver (NVIDIA's or the virtual one), the images, and the launches that make
// up one call. Tensors are copied to the device before and back after; what a kernel leaves unwritten comes back as it
// was.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cudadent/kernel.h"
#include "support/result.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

class GpuEntry {
 public:
  [[nodiscard]] static Result<std::unique_ptr<GpuEntry>> load(const std::string& driver, int ordinal,
                                                              const std::vector<Image>& images);
  ~GpuEntry();
  GpuEntry(const GpuEntry&) = delete;
  GpuEntry& operator=(const GpuEntry&) = delete;

  [[nodiscard]] const std::string& device() const;  // "NVIDIA L4"
  // `shape` is one call as the worker laid it out; `is_input` tells for each of its tensors.
  [[nodiscard]] Result<Done> bind(const std::vector<Launch>& launches, std::vector<bool> is_input,
                                  const cudadent_call& shape);
  [[nodiscard]] Result<Done> run(const cudadent_call& call);

 private:
  struct State;
  explicit GpuEntry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace flashmoe::workflow
