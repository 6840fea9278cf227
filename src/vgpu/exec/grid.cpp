#include <algorithm>

#include "vgpu/exec/heap.hpp"
#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/schedule.hpp"
#include "vgpu/exec/standstill.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

namespace {

[[nodiscard]] AccessTraits traits_of(const ir::Form& form) {
  AccessTraits traits{};
  const bool is_atomic = form.opcode == "atom" || form.opcode == "red" || form.opcode == "mbarrier";
  Order order = is_atomic ? Order::relaxed : Order::weak;  // PTX ISA: an atom without .sem is relaxed
  order = form.has("relaxed") || form.has("volatile") ? Order::relaxed : order;
  order = form.has("acquire") ? Order::acquire : order;
  order = form.has("release") ? Order::release : order;
  order = form.has("acq_rel") ? Order::acq_rel : order;
  Scope scope = Scope::gpu;
  scope = form.has("cta") ? Scope::cta : scope;
  scope = form.has("sys") || form.has("volatile") ? Scope::system : scope;
  if (form.opcode == "mbarrier" && !form.has("relaxed")) {  // PTX ISA 9.7.13.15: arrivals release, waits acquire
    order = form.has("arrive") || form.has("arrive_drop") ? Order::release : order;
    order = form.has("test_wait") || form.has("try_wait") ? Order::acquire : order;
    scope = form.has("cluster") ? Scope::gpu : Scope::cta;
  }
  traits.order = static_cast<std::uint8_t>(order);
  traits.scope = static_cast<std::uint8_t>(scope);
  traits.is_volatile = form.has("volatile");
  return traits;
}

}  // namespace

Schedule Schedule::adversarial(std::uint64_t seed) {
  Schedule schedule{};
  schedule.seed = seed != 0 ? seed : 1;
  schedule.copies = seed % 2 == 0 ? Copies::earliest : Copies::random;
  schedule.parts_warps = true;
  schedule.slice = 1 + static_cast<std::uint32_t>(seed * 7 % 16);
  return schedule;
}

Outcome run(const Launch& launch, memory::DeviceMemory& memory) {
  Grid grid;
  grid.launch = &launch;
  grid.kernel = launch.kernel;
  grid.memory = &memory;
  Heap own_heap(memory);
  grid.heap = launch.heap != nullptr ? launch.heap : &own_heap;
  grid.observer = launch.observer;
  grid.random_state = launch.schedule.seed;
  const std::uint64_t slots = std::uint64_t{launch.sm_count} * launch.resident_ctas_per_sm;
  const std::uint64_t resident = std::min(launch.grid.count(), std::max<std::uint64_t>(slots, 1));
  Outcome outcome{};
  if (resident == 0 || launch.block.count() == 0) {
    return outcome;
  }
  const bool in_order =
      grid.observer != nullptr || launch.schedule.seed != 0 || launch.schedule.copies == Schedule::Copies::random;
  if (grid.observer != nullptr) {
    for (const ir::InstInfo& info : launch.kernel->info) {
      grid.traits.push_back(traits_of(info.form));
    }
    grid.reads_clock = reads_a_clock(*launch.kernel);
    grid.observer->grid_begins(grid);
  }
  outcome.warp_instructions = in_order ? run_in_order(grid, resident) : run_fast(grid, resident, launch.host_threads);
  if (grid.observer != nullptr) {
    grid.observer->grid_ends(grid, outcome.warp_instructions);
  }
  outcome.fault = grid.fault;
  return outcome;
}

}  // namespace flashmoe::vgpu::exec
