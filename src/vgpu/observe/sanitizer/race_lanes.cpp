// Lanes of one access against each other: a store that is its own race, and data that is passed from lane to lane.
#include <algorithm>
#include <array>
#include <cstring>

#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/sanitizer/racecheck.hpp"
#include "vgpu/observe/store_value.hpp"

namespace flashmoe::vgpu::observe {

// A flag is compared, and stands in one place; data stands in a place a lane, and is computed with.
void Racecheck::find_compared(const ir::Kernel& kernel) {
  is_compared_.assign(kernel.code.size(), false);
  for (std::size_t pc = 0; pc < kernel.code.size(); ++pc) {
    const ir::InstInfo& load = kernel.info[pc];
    if (load.form.opcode != "ld" || !load.form.has("volatile") || load.writes.empty()) continue;
    const auto has = [](const std::vector<std::uint32_t>& slots, std::uint32_t slot) {
      return std::find(slots.begin(), slots.end(), slot) != slots.end();
    };
    for (std::size_t next = pc + 1; next < kernel.code.size(); ++next) {
      const ir::InstInfo& info = kernel.info[next];
      if (has(info.reads, load.writes.front())) {
        is_compared_[pc] = info.form.opcode == "setp";
        break;
      }
      if (has(info.writes, load.writes.front()) || info.form.opcode == "bra") break;
    }
  }
}

bool Racecheck::passes_data(const exec::Access& access) const {
  if (!access.is_volatile || access.space != ir::Space::shared || access.kind == exec::AccessKind::atomic) return false;
  if (is_compared_[access.pc]) return false;
  const std::uint64_t first = access.address[std::countr_zero(access.lanes)];
  bool is_spread = false;
  for_each_lane(access.lanes, [&](int lane) { is_spread = is_spread || access.address[lane] != first; });
  return is_spread;
}

// Two lanes of one store in the same bytes: harmless when they store the same, undefined otherwise.
void Racecheck::same_instruction(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access) {
  if (access.pattern != nullptr && access.pattern->is_row(access.bytes)) return;
  std::array<std::pair<std::uint64_t, int>, 32> sorted;
  std::size_t n = 0;
  bool rising = true;
  for_each_lane(access.lanes, [&](int lane) {
    if (n > 0 && access.address[lane] < sorted[n - 1].first + access.bytes) rising = false;
    sorted[n++] = {access.address[lane], lane};
  });
  if (rising) return;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
  for (std::size_t i = 1; i < n; ++i) {
    const auto [low, low_lane] = sorted[i - 1];
    const auto [high, high_lane] = sorted[i];
    if (high >= low + access.bytes) continue;
    std::array<std::uint8_t, 32> first{}, second{};
    if (!store_value(warp, inst, access.pc, low_lane, first) || !store_value(warp, inst, access.pc, high_lane, second))
      return;
    const std::size_t offset = high - low;
    if (std::memcmp(first.data() + offset, second.data(), access.bytes - offset) == 0) continue;
    if (!log_.is_new(Check::racecheck, access.pc, access.pc, 1)) return;
    const exec::Dim3& block = grid_->launch->block;
    const std::uint32_t base = warp.id * exec::lanes_per_warp;
    Finding finding{.check = Check::racecheck,
                    .kernel = grid_->kernel->name,
                    .message = "lanes of one store write different values to the same place"};
    finding.at = party(*grid_->kernel, access.pc, warp.cta->block,
                       thread_of(block, base + static_cast<std::uint32_t>(high_lane)));
    finding.other = party(*grid_->kernel, access.pc, warp.cta->block,
                          thread_of(block, base + static_cast<std::uint32_t>(low_lane)));
    finding.other->what = "the same store";
    finding.cause = Cause::lanes;
    finding.address = high;
    finding.space = ir::name_of(access.space);
    finding.advice = "Let one lane store, or give each lane its own element: which value stays is not defined.";
    log_.add(std::move(finding));
    return;
  }
}

}  // namespace flashmoe::vgpu::observe
