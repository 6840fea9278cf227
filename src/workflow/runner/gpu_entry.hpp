// The worker's side of a CUDA kernel: one driver (NVIDIA's or the virtual one), the images, and the launches that make
// up one call. Tensors are copied to the device before and back after; what a kernel leaves unwritten comes back as it
// was.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cudadent/kernel.h"
#include "support/result.hpp"
#include "workflow/runner/call_count.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/runner/timing.hpp"

namespace flashmoe::workflow {

class GpuEntry {
 public:
  [[nodiscard]] static Result<std::unique_ptr<GpuEntry>> load(const std::string& driver, int ordinal,
                                                              const std::vector<Image>& images);
  ~GpuEntry();
  GpuEntry(const GpuEntry&) = delete;
  GpuEntry& operator=(const GpuEntry&) = delete;

  [[nodiscard]] const std::string& device() const;  // "NVIDIA L4"
  [[nodiscard]] std::int64_t l2_bytes() const;
  // `shape` is one call as the worker laid it out; `is_input` tells for each of its tensors. `behind`: so many bytes
  // after each tensor that is no input go to the device and back, too, where nobody else looks at what is written
  // there.
  [[nodiscard]] Result<Done> bind(const std::vector<Launch>& launches, std::vector<bool> is_input,
                                  const cudadent_call& shape, std::size_t behind);
  [[nodiscard]] Result<Done> run(const cudadent_call& call);
  // All calls, each with memory of its own on the device; the seconds of all of them together.
  [[nodiscard]] Result<double> time(std::span<const cudadent_call> calls, Timing timing);
  // One call, with what the driver says of its kernels and, where metrics are asked for, the counters of them
  // that CUPTI reads, whose library is `cupti`.
  [[nodiscard]] Result<CallCount> count(const cudadent_call& call, const std::vector<std::string>& metrics,
                                        const std::string& cupti);

 private:
  struct State;
  explicit GpuEntry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace flashmoe::workflow
