#include "vgpu/observe/counters/cache.hpp"

#include <algorithm>
#include <bit>

namespace flashmoe::vgpu::observe {
namespace {

std::uint32_t count(std::uint32_t sectors) {
  return static_cast<std::uint32_t>(std::popcount(sectors));
}

}  // namespace

SectorCache::SectorCache(std::uint64_t bytes, std::uint32_t ways)
    : ways_(ways), sets_(std::max<std::uint64_t>(1, bytes / line_bytes / ways)) {
  entries_.resize(sets_ * ways_);
}

SectorCache::Entry* SectorCache::set_of(std::uint64_t line) {
  // Fibonacci hashing; the high half mixes all bits of the line number.
  const std::uint64_t mixed = (line * 0x9e3779b97f4a7c15ull) >> 32;
  return entries_.data() + mixed * sets_ / (std::uint64_t{1} << 32) * ways_;
}

SectorCache::Outcome SectorCache::touch(std::uint64_t line, std::uint8_t sectors, bool dirty) {
  Outcome outcome;
  Entry* const set = set_of(line);
  Entry* victim = set;
  for (Entry* entry = set; entry != set + ways_; ++entry) {
    if (entry->line == line) {
      victim = entry;
      break;
    }
    if (entry->used < victim->used) victim = entry;
  }
  if (victim->line != line) {
    outcome.evicted_dirty = count(victim->dirty);
    *victim = {};
    victim->line = line;
  }
  outcome.hits = victim->valid & sectors;
  victim->valid |= sectors;
  if (dirty) victim->dirty |= sectors;
  victim->used = ++clock_;
  return outcome;
}

void SectorCache::drop(std::uint64_t line, std::uint8_t sectors) {
  Entry* const set = set_of(line);
  for (Entry* entry = set; entry != set + ways_; ++entry) {
    if (entry->line == line) entry->valid = static_cast<std::uint8_t>(entry->valid & ~sectors);
  }
}

void SectorCache::clear() {
  std::fill(entries_.begin(), entries_.end(), Entry{});
  clock_ = 0;
}

std::uint64_t SectorCache::dirty_sectors() const {
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_) sum += count(entry.dirty);
  return sum;
}

MemoryModel::MemoryModel(const Shape& shape)
    : shape_(shape), l1_(shape.sms, SectorCache(shape.l1_bytes, shape.l1_ways)), l2_(shape.l2_bytes, shape.l2_ways) {}

void MemoryModel::launch_begins(bool cold, std::uint64_t l1_bytes) {
  if (l1_bytes != shape_.l1_bytes) {
    shape_.l1_bytes = l1_bytes;
    l1_.assign(shape_.sms, SectorCache(l1_bytes, shape_.l1_ways));
  }
  for (SectorCache& cache : l1_) cache.clear();
  if (cold) l2_.clear();
  traffic_ = {};
}

void MemoryModel::request(std::uint32_t sm, Kind kind, const Coalesced& request) {
  SectorCache& l1 = l1_[sm % l1_.size()];
  for (std::uint32_t i = 0; i < request.lines; ++i) {
    const Coalesced::Line& line = request.line[i];
    std::uint8_t wanted = line.sectors;
    if (kind == Kind::load) {
      traffic_.l1_sectors += count(wanted);
      const std::uint8_t hits = l1.touch(line.line, wanted, false).hits;
      traffic_.l1_hits += count(hits);
      wanted = static_cast<std::uint8_t>(wanted & ~hits);
    } else if (kind != Kind::load_past_l1) {
      l1.drop(line.line, wanted);
    }
    if (wanted == 0) continue;
    const bool writes = kind == Kind::store || kind == Kind::atomic;
    const auto [hits, evicted] = l2_.touch(line.line, wanted, writes);
    traffic_.l2_hits += count(hits);
    (writes ? traffic_.l2_sectors_written : traffic_.l2_sectors_read) += count(wanted);
    traffic_.dram_sectors_written += evicted;
    for (std::uint32_t sector = 0; sector < sectors_per_line; ++sector) {
      const bool missed = (wanted & ~hits) >> sector & 1;
      const bool whole = kind == Kind::store && line.bytes[sector] == 0xffffffffu;
      if (missed && !whole) ++traffic_.dram_sectors_read;
    }
  }
}

MemoryTraffic MemoryModel::traffic() const {
  MemoryTraffic traffic = traffic_;
  traffic.dirty_at_end = l2_.dirty_sectors();
  return traffic;
}

}  // namespace flashmoe::vgpu::observe
