#include "vgpu/driver/leftovers.hpp"

#include "vgpu/driver/module.hpp"
#include "vgpu/driver/watch.hpp"
#include "vgpu/exec/heap.hpp"

namespace flashmoe::vgpu::driver {
namespace {

void forget(const Global& variable) {
  const auto* const now = reinterpret_cast<const std::uint8_t*>(variable.address);
  for (std::uint64_t begin = 0; begin < variable.initial.size();) {
    std::uint64_t end = begin;
    while (end < variable.initial.size() && now[end] != variable.initial[end]) ++end;
    if (end != begin) host_allocated(variable.address + begin, end - begin);
    begin = end + 1;
  }
}

}  // namespace

void call_ends(const State& all, const Context& context) {
  if (all.machine == nullptr || !all.machine->watching.leftovers) return;
  for (const auto& [handle, module] : all.modules) {
    for (const auto& [name, variable] : module->globals) forget(variable);
  }
  if (context.heap != nullptr && context.heap->used() != 0) report_heap(context.heap->used());
}

}  // namespace flashmoe::vgpu::driver
