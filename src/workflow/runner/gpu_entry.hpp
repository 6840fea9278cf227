// The worker's side of a CUDA kernel: one driver (NVIDIA's or the virtual one), the images, and the launches that make
// up one call. Tensors are copied to the device before and back after; what a kernel leaves unwritten comes back as it
// was.
//
//   load   {"driver":"...","ordinal":0,"images":[{"path":"...","hash":"..."}]}
//   bind   "launches":[{"image":0,"kernel":"_Z...","grid":[1,1,1],"block":[32,1,1],"shared_bytes":0,
//                       "args":[{"tensor":0},{"i64":5},{"f32":0.125}]}]
#pragma once

#include <memory>

#include "cudadent/kernel.h"
#include "support/json.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

class GpuEntry {
 public:
  // Throws Json::exception on a malformed request, as the worker's other commands do.
  [[nodiscard]] static Result<std::unique_ptr<GpuEntry>> load(const Json& request);
  ~GpuEntry();
  GpuEntry(const GpuEntry&) = delete;
  GpuEntry& operator=(const GpuEntry&) = delete;

  [[nodiscard]] const std::string& device() const;  // "NVIDIA L4"
  // `request` is the worker's bind request; `shape` one call as it laid it out.
  [[nodiscard]] Result<Done> bind(const Json& request, const cudadent_call& shape);
  [[nodiscard]] Result<Done> run(const cudadent_call& call);

 private:
  struct State;
  explicit GpuEntry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace flashmoe::workflow
