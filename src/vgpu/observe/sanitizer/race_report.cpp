// The words of a race: what each party did, and what would have ordered them.
#include <fmt/format.h>

#include "vgpu/observe/sanitizer/racecheck.hpp"

namespace flashmoe::vgpu::observe {
namespace {

std::string deed(const AccessRecord& record, bool writes) {
  if (record.has(AccessRecord::copy))
    return writes ? "the write of an asynchronous copy" : "the read of an asynchronous copy";
  if (record.has(AccessRecord::strong)) return writes ? "an atomic or volatile write" : "an atomic or volatile read";
  return writes ? "a write" : "a read";
}

}  // namespace

void Racecheck::suspect(const Now& now, const AccessRecord& before, bool before_writes, std::uint32_t words) {
  const Verdict verdict = judge(before, now);
  const bool is_missing_wait = verdict == Verdict::copy_under_way;
  // Two plain writes of the same value leave that value, whoever comes last.
  if (before_writes && !is_missing_wait && (now.unchanged >> now.record.lane & 1) != 0) return;
  const Suspicion race{now.record, before, now.is_write, before_writes, verdict, now.space, now.address, words};
  // A plain load against an atomic: how a compare-and-swap loop begins. If its warp goes on with an atomic there, that
  // decides whether the value still stood; if not, it is what it seems.
  const bool now_loads = !now.is_write && !now.record.has(AccessRecord::strong);
  const bool before_loads = !before_writes && !before.has(AccessRecord::strong) && !before.has(AccessRecord::copy);
  if ((now_loads && before_writes && before.has(AccessRecord::strong)) ||
      (before_loads && now.is_write && now.record.has(AccessRecord::strong))) {
    const auto [known, is_new] =
        guesses_.try_emplace({now_loads ? now.record.actor : before.actor, location_of(now.space, now.address)}, race);
    if (!is_new) known->second.times += words;
    return;
  }
  suspect(race);
}

void Racecheck::suspect(const Suspicion& race) {
  const std::uint64_t key = std::uint64_t{race.mine.pc} << 29 | std::uint64_t{race.before.pc} << 2 | race.kind();
  const auto [known, is_new] = suspected_.try_emplace(key, suspicions_.size());
  if (is_new) {
    suspicions_.push_back(race);
  } else {
    suspicions_[known->second].times += race.times;
  }
}

void Racecheck::settle() {
  for (const auto& [place, race] : guesses_) suspect(race);
  guesses_.clear();
}

void Racecheck::tell() {
  for (const Suspicion& suspicion : suspicions_) report(suspicion);
  suspicions_.clear();
  suspected_.clear();
}

void Racecheck::report(const Suspicion& race) {
  const AccessRecord& before = race.before;
  const Check check = race.verdict == Verdict::copy_under_way ? Check::synccheck : Check::racecheck;
  if (!log_.is_new(check, race.mine.pc, before.pc, race.kind(), race.times)) return;

  const exec::Launch& launch = *grid_->launch;
  const auto of = [&](const AccessRecord& record, std::uint32_t lane) {
    const std::uint32_t number = record.actor % warps_per_cta_ * exec::lanes_per_warp + lane;
    return party(*grid_->kernel, record.pc, block_of(launch.grid, record.actor / warps_per_cta_),
                 thread_of(launch.block, number));
  };
  Finding finding{.check = check, .kernel = grid_->kernel->name};
  finding.times = race.times;
  finding.cause = race.verdict == Verdict::within_warp ? Cause::lanes : Cause::order;
  // Of several lanes one that is not this one.
  const bool is_same = race.verdict == Verdict::within_warp && before.first_lane() == race.mine.lane;
  finding.at = of(race.mine, race.mine.lane);
  finding.other = of(before, is_same ? before.last_lane() : before.first_lane());
  finding.other->what = deed(before, race.before_writes);
  finding.address = race.address;
  finding.space = ir::name_of(race.space);
  const std::string mine = deed(race.mine, race.is_write);
  switch (race.verdict) {
    case Verdict::copy_under_way:
      finding.message = fmt::format("{} meets an asynchronous copy that is still under way", mine);
      finding.advice =
          "Wait for the copy with cp.async.wait_group before using its data, then put a barrier if other threads use "
          "it; or wait for the mbarrier that it arrives at.";
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
    case Verdict::not_read_only:
      finding.message = "a read with ld.global.nc of bytes that this launch wrote";
      finding.advice =
          "Use a plain load (no __ldg, no const __restrict__): the read-only path need not see what a kernel writes.";
      break;
    case Verdict::unordered:
    case Verdict::ordered: {
      finding.message = fmt::format("race: {} after {} with nothing that orders them", mine, finding.other->what);
      const bool same_cta = before.actor / warps_per_cta_ == race.mine.actor / warps_per_cta_;
      finding.advice =
          same_cta ? "Put a barrier that both warps take part in between the two accesses."
                   : "Order the blocks with a __threadfence() and an atomic on both sides, or use two launches.";
      break;
    }
  }
  log_.add(std::move(finding));
}

}  // namespace flashmoe::vgpu::observe
