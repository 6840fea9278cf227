#include "runtime/kernel_facts.hpp"

namespace flashmoe::runtime {

Result<DeviceFacts> device_facts(const Context& context) {
  const auto major = context.attribute(cuda::DeviceAttribute::compute_capability_major);
  if (!major) return major.error();
  const auto minor = context.attribute(cuda::DeviceAttribute::compute_capability_minor);
  if (!minor) return minor.error();
  const auto count = context.attribute(cuda::DeviceAttribute::multiprocessor_count);
  if (!count) return count.error();
  return DeviceFacts{.name = context.device_name(), .sm = 10 * *major + *minor, .sm_count = *count};
}

Result<KernelFacts> kernel_facts(const Function& function, const Geometry& geometry) {
  KernelFacts facts;
  const std::pair<cuda::FunctionAttribute, int*> wanted[] = {
      {cuda::FunctionAttribute::registers, &facts.registers},
      {cuda::FunctionAttribute::shared_bytes, &facts.static_shared_bytes},
      {cuda::FunctionAttribute::local_bytes, &facts.local_bytes},
      {cuda::FunctionAttribute::max_threads_per_block, &facts.max_threads}};
  for (const auto& [attribute, value] : wanted) {
    const auto said = function.attribute(attribute);
    if (!said) return said.error();
    *value = *said;
  }
  const auto ctas = function.ctas_per_sm(geometry);
  if (!ctas) return ctas.error();
  facts.ctas_per_sm = *ctas;
  return facts;
}

}  // namespace flashmoe::runtime
