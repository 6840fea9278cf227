#include <array>

#include "workflow/gates/build_gate.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/gates/environment_gate.hpp"
#include "workflow/gates/performance.hpp"
#include "workflow/gates/profile_gate.hpp"

namespace flashmoe::workflow {

std::span<const Gate* const> all_gates() {
  static constexpr std::array rows{&environment_gate, &build_gate, &correctness_gate, &performance_gate, &profile_gate};
  return rows;
}

const Gate* find_gate(std::string_view name) {
  for (const Gate* gate : all_gates()) {
    if (gate->name == name) return gate;
  }
  return nullptr;
}

std::vector<std::string> gate_names() {
  std::vector<std::string> names;
  for (const Gate* gate : all_gates()) names.emplace_back(gate->name);
  return names;
}

}  // namespace flashmoe::workflow
