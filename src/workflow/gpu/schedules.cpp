#include "workflow/gpu/schedules.hpp"

#include <fmt/format.h>

#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {

std::vector<VirtualSchedule> virtual_schedules(std::uint64_t seed) {
  std::vector<VirtualSchedule> all{{.name = "natural", .environment = {"VGPU_SCHEDULE=natural", "VGPU_SEED=0"}}};
  // Short enough to be typed; an even seed lets copies land at once, an odd one at any time.
  constexpr std::uint64_t most = 1'000'000;
  for (const std::uint64_t parity : {0U, 1U}) {
    const std::uint64_t drawn = 2 * (1 + mix_seed(seed, 11 + parity) % most) + parity;
    all.push_back({.name = fmt::format("adversarial, seed {}", drawn),
                   .environment = {"VGPU_SCHEDULE=adversarial", fmt::format("VGPU_SEED={}", drawn)}});
  }
  return all;
}

Runnable under_schedule(Runnable runnable, const VirtualSchedule& schedule) {
  std::vector<std::string> settings = schedule.environment;
  settings.emplace_back("VGPU_CHECK=memcheck,synccheck");
  for (const std::string& setting : settings) {
    const std::string name = setting.substr(0, setting.find('=') + 1);
    std::erase_if(runnable.environment, [&](const std::string& other) { return other.starts_with(name); });
    runnable.environment.push_back(setting);
  }
  return runnable;
}

}  // namespace flashmoe::workflow
