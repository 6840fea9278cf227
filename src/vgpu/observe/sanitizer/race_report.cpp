// The words of a race: what each party did, and what would have ordered them.
#include <fmt/format.h>

#include <cstring>

#include "vgpu/observe/sanitizer/racecheck.hpp"
#include "vgpu/observe/store_value.hpp"

namespace flashmoe::vgpu::observe {
namespace {

std::string deed(const AccessRecord& record, bool writes) {
  if (record.has(AccessRecord::copy))
    return writes ? "the write of an asynchronous copy" : "the read of an asynchronous copy";
  if (record.has(AccessRecord::strong)) return writes ? "an atomic or volatile write" : "an atomic or volatile read";
  return writes ? "a write" : "a read";
}

}  // namespace

void Racecheck::report(const Now& now, const AccessRecord& before, bool before_writes, Verdict verdict) {
  // Two plain writes of the same value leave that value, whoever comes last.
  if (now.is_write && before_writes && now.inst != nullptr && verdict != Verdict::copy_under_way) {
    std::array<std::uint8_t, 32> value{};
    if (store_value(now.warp, *now.inst, now.record.pc, static_cast<int>(now.record.lane), value)) {
      const bool is_shared = now.space == ir::Space::shared;
      const std::uint8_t* const there =
          is_shared ? now.warp.cta->shared.data() + now.address : reinterpret_cast<const std::uint8_t*>(now.address);
      if (std::memcmp(there, value.data(), now.bytes) == 0) return;
    }
  }

  const bool is_missing_wait = verdict == Verdict::copy_under_way;
  const Check check = is_missing_wait ? Check::synccheck : Check::racecheck;
  if (!log_.is_new(check, now.record.pc, before.pc)) return;

  const exec::Launch& launch = *grid_->launch;
  const auto of = [&](const AccessRecord& record) {
    const std::uint32_t number = record.actor % warps_per_cta_ * exec::lanes_per_warp + record.lane;
    return party(*grid_->kernel, record.pc, block_of(launch.grid, record.actor / warps_per_cta_),
                 thread_of(launch.block, number));
  };
  Finding finding{.check = check, .kernel = grid_->kernel->name};
  finding.at = of(now.record);
  finding.other = of(before);
  finding.other->what = deed(before, before_writes);
  finding.address = now.address;
  finding.space = ir::name_of(now.space);
  const std::string mine = deed(now.record, now.is_write);
  switch (verdict) {
    case Verdict::copy_under_way:
      finding.message = fmt::format("{} meets an asynchronous copy that is still under way", mine);
      finding.advice =
          "Wait for the copy with cp.async.wait_group before using its data, then put a barrier if other threads use "
          "it.";
      break;
    case Verdict::unsynchronised_copy:
      finding.message = fmt::format("race: {} of bytes that another thread copied asynchronously", mine);
      finding.advice =
          "cp.async.wait_group waits for the thread's own copies only; put a barrier after it before others use the "
          "data.";
      break;
    case Verdict::within_warp:
      finding.message = fmt::format("race within a warp: {} after {} by another lane", mine, finding.other->what);
      finding.advice = "Put __syncwarp() between the two: lanes of a warp are not in step by themselves.";
      break;
    case Verdict::scope:
      finding.message =
          fmt::format("race: {} and {} from different blocks, one of them at block scope", mine, finding.other->what);
      finding.advice = "Use device scope (atomicAdd, not atomicAdd_block; .gpu, not .cta) for what other blocks touch.";
      break;
    case Verdict::unordered:
    case Verdict::ordered: {
      finding.message = fmt::format("race: {} after {} with nothing that orders them", mine, finding.other->what);
      const bool same_cta = before.actor / warps_per_cta_ == now.record.actor / warps_per_cta_;
      finding.advice =
          same_cta ? "Put a barrier that both warps take part in between the two accesses."
                   : "Order the blocks with a __threadfence() and an atomic on both sides, or use two launches.";
      break;
    }
  }
  log_.add(std::move(finding));
}

}  // namespace flashmoe::vgpu::observe
