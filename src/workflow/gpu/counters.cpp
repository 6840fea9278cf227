#include "workflow/gpu/counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace flashmoe::workflow {
namespace {

constexpr double least_movement = 0.01;

// The weightiest first: what costs most where it is the limit.
constexpr std::array all_compared{
    Counter{"vgpu__ptx_inst_executed.sum", "instructions (warps)"},
    Counter{"vgpu__dram_bytes_read.sum", "DRAM bytes read (modelled)"},
    Counter{"vgpu__l2_bytes_read.sum", "L2 bytes read (modelled)"},
    Counter{"vgpu__shared_wavefronts.sum", "shared-memory wavefronts"},
    Counter{"vgpu__shared_bank_conflicts.sum", "bank conflicts"},
    Counter{"vgpu__local_bytes.sum", "bytes of spills and local arrays"},
    Counter{"vgpu__ptx_divergent_branches.sum", "divergent branches"},
};

double total_of(const ProfileRun& run, const std::string& name) {
  double total = 0;
  for (const LaunchProfile& launch : run.launches) {
    const auto found = launch.report.metrics.find(name);
    if (found != launch.report.metrics.end()) total += found->second;
  }
  return total;
}

}  // namespace

const Counter* find_counter(const std::string& name) {
  const auto found = std::find_if(all_compared.begin(), all_compared.end(),
                                  [&](const Counter& counter) { return name == counter.name; });
  return found == all_compared.end() ? nullptr : &*found;
}

std::vector<CounterChange> counter_changes(const ProfileRun& base, const ProfileRun& candidate) {
  std::vector<CounterChange> changes;
  for (const Counter& counter : all_compared) {
    CounterChange change{
        .name = counter.name, .from = total_of(base, counter.name), .to = total_of(candidate, counter.name)};
    if (change.from != 0 || change.to != 0) changes.push_back(std::move(change));
  }
  return changes;
}

Movement movement_of(const CounterChange& change) {
  const double moved = change.to - change.from;
  if (std::abs(moved) <= least_movement * std::abs(change.from)) return Movement::none;
  return moved < 0 ? Movement::better : Movement::worse;
}

std::string change_text(const CounterChange& change) {
  if (change.from == 0) return change.to == 0 ? "0" : "from 0";
  return fmt::format("{:+.1f} %", 100 * (change.to / change.from - 1));
}

}  // namespace flashmoe::workflow
