#include "vgpu/observe/counters/counters.hpp"

#include <algorithm>
#include <bit>

namespace flashmoe::vgpu::observe {

MemoryCounts& MemoryCounts::operator+=(const MemoryCounts& other) {
  shared_requests += other.shared_requests;
  shared_wavefronts += other.shared_wavefronts;
  shared_ideal += other.shared_ideal;
  shared_repeats += other.shared_repeats;
  global_requests += other.global_requests;
  global_sectors += other.global_sectors;
  global_ideal_sectors += other.global_ideal_sectors;
  global_lines += other.global_lines;
  local_requests += other.local_requests;
  local_bytes += other.local_bytes;
  return *this;
}

Counters::Counters(const MachineShape& machine, bool cold, bool paths, std::optional<SampleSize> sample)
    : machine_(machine), cold_(cold), sample_(sample) {
  if (paths) paths_.emplace();
}

void Counters::grid_begins(const exec::Grid& grid) {
  const ir::Kernel& kernel = *grid.kernel;
  const std::uint32_t dynamic = grid.launch->dynamic_shared_bytes;
  counts_ = {};
  counts_.instructions.resize(kernel.code.size());
  counts_.memory.resize(kernel.code.size());
  counts_.grid = grid.launch->grid;
  counts_.block = grid.launch->block;
  counts_.shared_bytes = dynamic > 0 ? kernel.dynamic_shared_offset + dynamic : kernel.static_shared_bytes;
  counts_.is_cold = cold_;
  scaled_instructions_ = 0;
  const std::uint64_t ctas = counts_.grid.count();
  if (sample_ && sample_->of(ctas) < ctas) counts_.sample.emplace(ctas, sample_->of(ctas), grid.launch->schedule.seed);
  work_.launch_begins(machine_.sms);
  if (paths_) paths_->launch_begins(kernel, counts_.grid.count());
  known_wavefronts_.assign(kernel.code.size(), {});
  past_l1_.assign(kernel.code.size(), false);
  for (std::size_t pc = 0; pc < kernel.info.size(); ++pc) {
    const ir::Form& form = kernel.info[pc].form;
    past_l1_[pc] =
        form.has("cg") || form.has("cv") || form.has("volatile") || form.has("relaxed") || form.has("acquire");
  }
  // What one CTA's shared memory leaves; the carve-out of real devices has steps this model has not.
  const auto both = static_cast<std::uint64_t>(machine_.architecture.l1_and_shared_bytes_per_sm);
  const std::uint64_t l1_bytes = both - std::min<std::uint64_t>(counts_.shared_bytes, both / 2);
  if (!model_) {
    MemoryModel::Shape shape;
    shape.sms = machine_.sms;
    shape.l2_bytes = machine_.l2_bytes;
    shape.l1_bytes = l1_bytes;
    model_ = std::make_unique<MemoryModel>(shape);
  }
  model_->launch_begins(cold_, l1_bytes);
}

void Counters::grid_ends(std::uint64_t warp_instructions) {
  counts_.traffic = model_->traffic();
  if (counts_.sample && warp_instructions > 0)
    counts_.sampled_over_executed = scaled_instructions_ / static_cast<double>(warp_instructions);
  counts_.work = work_.spread();
  if (paths_) counts_.paths = paths_->paths();
}

void Counters::cta_ended(const exec::Cta& cta, bool wrote) {
  std::uint64_t instructions = 0;
  for (const exec::Warp& warp : cta.warps) instructions += warp.instructions;
  const std::uint64_t times = counts_.sample ? counts_.sample->find(cta.linear)->stands_for : 1;
  work_.cta_ended(cta.linear, cta.sm, instructions, wrote, times);
  scaled_instructions_ += static_cast<double>(times * instructions);
  if (paths_) paths_->cta_ended(cta);
}

void Counters::branch(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, std::uint32_t taken,
                      std::uint32_t not_taken) {
  if (paths_) paths_->branch(warp, pc, taken, not_taken);
  const std::uint64_t times = sampled(warp, [](CtaCounts&) {});
  const auto count = [&](std::uint32_t to, std::uint32_t lanes) {
    if (lanes == 0) return;
    EdgeCounts& edge = counts_.edges[{pc, to}];
    edge.warps += times;
    edge.threads += times * static_cast<std::uint32_t>(std::popcount(lanes));
  };
  count(inst.target, taken);
  count(pc + 1, not_taken);
  if (taken != 0 && not_taken != 0) counts_.divergent_branches[pc] += times;
}

void Counters::global(const exec::Warp& warp, std::uint32_t pc, MemoryModel::Kind kind) {
  MemoryCounts& counts = counts_.memory[pc];
  const std::uint64_t times = sampled(warp, [&](CtaCounts& cta) {
    ++cta.global_requests;
    cta.global_sectors += coalesced_.sectors;
  });
  counts.global_requests += times;
  counts.global_sectors += times * coalesced_.sectors;
  counts.global_ideal_sectors += times * coalesced_.ideal_sectors();
  counts.global_lines += times * coalesced_.lines;
  if (counts_.sample) return;
  if (paths_) paths_->moved(warp, std::uint64_t{coalesced_.sectors} * sector_bytes);
  model_->request(warp.cta->sm, kind, coalesced_);
}

void Counters::shared(const exec::Warp& warp, std::uint32_t pc, const Wavefronts& wavefronts) {
  MemoryCounts& counts = counts_.memory[pc];
  const std::uint64_t times = sampled(warp, [&](CtaCounts& cta) {
    cta.shared_wavefronts += wavefronts.total;
    cta.shared_bank_conflicts += wavefronts.total - wavefronts.ideal;
  });
  counts.shared_requests += times;
  counts.shared_wavefronts += times * wavefronts.total;
  counts.shared_ideal += times * wavefronts.ideal;
  counts.shared_repeats += wavefronts.may_be_fewer ? times : 0;
}

// Where all addresses are moved by 32 words, the banks stay what they are: an instruction asks the same over and over.
Wavefronts Counters::wavefronts_of(const exec::Access& access, SharedKind kind) {
  const std::uint32_t bytes = kind == SharedKind::matrix ? 16 : access.bytes;
  if (access.pattern == nullptr) return shared_wavefronts(access.lanes, access.address, bytes, kind);
  exec::LanePattern pattern = *access.pattern;
  pattern.base %= line_bytes;
  KnownWavefronts& known = known_wavefronts_[access.pc];
  if (known.wavefronts.total == 0 || known.pattern != pattern)
    known = {pattern, shared_wavefronts(access.lanes, access.address, bytes, kind)};
  return known.wavefronts;
}

void Counters::access(const exec::Warp& warp, const exec::Access& access) {
  if (access.lanes == 0) return;
  const bool is_atomic = access.kind == exec::AccessKind::atomic;
  switch (access.space) {
    case ir::Space::shared: {
      const SharedKind kind = is_atomic          ? SharedKind::atomic
                              : access.is_matrix ? SharedKind::matrix
                                                 : SharedKind::access;
      shared(warp, access.pc, wavefronts_of(access, kind));
      break;
    }
    case ir::Space::global:
    case ir::Space::generic: {
      const bool is_load = access.kind == exec::AccessKind::load;
      const bool past_l1 = past_l1_[access.pc] || access.is_volatile;
      const MemoryModel::Kind kind = is_atomic  ? MemoryModel::Kind::atomic
                                     : !is_load ? MemoryModel::Kind::store
                                     : past_l1  ? MemoryModel::Kind::load_past_l1
                                                : MemoryModel::Kind::load;
      const exec::LanePattern* const pattern = access.pattern;
      if (pattern != nullptr && (pattern->is_row(access.bytes) || pattern->span() == 0)) {
        coalesce(pattern->base, pattern->span() + access.bytes, coalesced_);
      } else {
        coalesce(access.lanes, access.address, access.bytes, coalesced_);
      }
      global(warp, access.pc, kind);
      break;
    }
    case ir::Space::local: {
      const std::uint64_t bytes = static_cast<std::uint64_t>(std::popcount(access.lanes)) * access.bytes;
      const std::uint64_t times = sampled(warp, [&](CtaCounts& cta) { cta.local_bytes += bytes; });
      counts_.memory[access.pc].local_requests += times;
      counts_.memory[access.pc].local_bytes += times * bytes;
      break;
    }
    case ir::Space::constant:
    case ir::Space::param:
      break;
  }
}

void Counters::copies_issued(const exec::Warp& warp, std::span<const exec::AsyncCopy> copies) {
  std::uint32_t lanes = 0, reading_lanes = 0, source_bytes = 0;
  std::uint64_t source[32] = {}, destination[32] = {};
  for (const exec::AsyncCopy& copy : copies) {
    lanes |= 1u << copy.lane;
    if (copy.source_bytes > 0) reading_lanes |= 1u << copy.lane;
    source[copy.lane] = copy.source;
    destination[copy.lane] = copy.destination;
    source_bytes = std::max<std::uint32_t>(source_bytes, copy.source_bytes);
  }
  const exec::AsyncCopy& any = copies.front();
  shared(warp, any.pc, shared_wavefronts(lanes, destination, any.bytes, SharedKind::access));
  if (reading_lanes == 0) return;
  const MemoryModel::Kind kind = past_l1_[any.pc] ? MemoryModel::Kind::load_past_l1 : MemoryModel::Kind::load;
  coalesce(reading_lanes, source, source_bytes, coalesced_);
  global(warp, any.pc, kind);
}

}  // namespace flashmoe::vgpu::observe
