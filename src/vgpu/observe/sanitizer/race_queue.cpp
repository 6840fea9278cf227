#include "vgpu/observe/sanitizer/race_queue.hpp"

#include <utility>

#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/store_value.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// A block fits in the host's second-level cache; so many may wait before the run does.
constexpr std::size_t most_addresses = 32 * 1024, most_copies = 8 * 1024, most_events = 4 * 1024;
constexpr std::size_t most_waiting = 4;

}  // namespace

RaceQueue::RaceQueue(Racecheck& check) : check_(check) {}

RaceQueue::~RaceQueue() {
  finish();
}

void RaceQueue::Block::clear() {
  events.clear();
  addresses.clear();
  patterns.clear();
  copies.clear();
  waits.clear();
  uses.clear();
}

RaceQueue::Event& RaceQueue::add(Event::Kind kind, RaceCta& cta, std::uint32_t warp) {
  if (open_.addresses.size() >= most_addresses || open_.copies.size() >= most_copies ||
      open_.events.size() >= most_events) {
    hand_over();
  }
  Event& event = open_.events.emplace_back();
  event.kind = kind;
  event.cta = &cta;
  event.warp = warp;
  return event;
}

std::unique_ptr<RaceCta> RaceQueue::cta_begins(const exec::Cta& cta) {
  auto made = std::make_unique<RaceCta>(static_cast<std::uint32_t>(cta.warps.size()), cta.shared.size(),
                                        check_.deferred_reads());
  check_.cta_begins(cta, made->clock);
  for (const exec::Warp& warp : cta.warps) check_.warp_begins(warp, made->clock, made->warps[warp.id]);
  return made;
}

void RaceQueue::cta_ends(std::unique_ptr<RaceCta> cta) {
  add(Event::Kind::ends, *cta);
  static_cast<void>(cta.release());  // look_at() frees it
}

void RaceQueue::access(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, RaceCta& cta) {
  if (!access.copies.empty() || (access.space != ir::Space::shared && access.space != ir::Space::global)) return;
  const bool is_store = access.kind == exec::AccessKind::store && !access.is_matrix;
  if (is_store) check_.same_instruction(warp, inst, access);
  Event& event = add(Event::Kind::access, cta, warp.id);
  event.access = access;
  event.live = warp.valid & ~warp.exited;
  event.unchanged = is_store ? unchanged_lanes(warp, inst, access) : 0;
  if (access.pattern != nullptr) {
    open_.patterns.push_back(*access.pattern);
  } else {
    open_.addresses.insert(open_.addresses.end(), access.address, access.address + exec::lanes_per_warp);
  }
}

void RaceQueue::copies_issued(const exec::Warp& warp, std::span<const exec::AsyncCopy> copies, RaceCta& cta) {
  add(Event::Kind::issued, cta, warp.id).number = static_cast<std::uint32_t>(copies.size());
  open_.copies.insert(open_.copies.end(), copies.begin(), copies.end());
  if (cta.joined.empty()) return;
  // An mbarrier closes a group of its own: what is issued behind it waits for the next one.
  const auto& arrivals = cta.joined[warp.id].arrivals;
  for (auto copy = open_.copies.end() - static_cast<std::ptrdiff_t>(copies.size()); copy != open_.copies.end(); ++copy)
    copy->group += arrivals[copy->lane];
}

void RaceQueue::copies_committed(const exec::Warp& warp, std::uint32_t lanes, RaceCta& cta) {
  if (cta.joined.empty()) return;
  RaceCta::JoinedCopies& joined = cta.joined[warp.id];
  for_each_lane(lanes, [&](int number) {
    const auto lane = static_cast<std::size_t>(number);
    joined.at_commit[lane].resize(warp.committed_groups[lane]);  // those before the first arrival have none
    joined.at_commit[lane].back() = joined.arrivals[lane];
  });
}

void RaceQueue::copies_waited(const exec::Warp& warp, std::uint32_t lanes, std::uint32_t pending, RaceCta& cta) {
  add(Event::Kind::waited, cta, warp.id).lanes = lanes;
  Racecheck::GroupsDone& done = open_.waits.emplace_back();
  for (std::size_t lane = 0; lane < done.size(); ++lane) {
    const std::uint32_t committed = warp.committed_groups[lane];
    done[lane] = committed > pending ? committed - pending : 0;
    if (done[lane] == 0 || cta.joined.empty()) continue;
    const std::vector<std::uint32_t>& at_commit = cta.joined[warp.id].at_commit[lane];
    if (done[lane] <= at_commit.size()) done[lane] += at_commit[done[lane] - 1];
  }
}

void RaceQueue::object_used(const exec::Warp& warp, const exec::BarrierObjectUse& use, RaceCta& cta) {
  Event& event = add(Event::Kind::object, cta, warp.id);
  event.live = warp.valid & ~warp.exited;
  open_.uses.push_back(use);
  open_.addresses.insert(open_.addresses.end(), use.place, use.place + exec::lanes_per_warp);
  if (use.kind != exec::BarrierObjectUse::Kind::copies_arrive) return;
  if (cta.joined.empty()) cta.joined.resize(cta.warps.size());
  auto& arrivals = cta.joined[warp.id].arrivals;
  Racecheck::GroupsDone& done = open_.waits.emplace_back();
  for_each_lane(use.lanes, [&](int number) {
    const auto lane = static_cast<std::size_t>(number);
    done[lane] = warp.committed_groups[lane] + ++arrivals[lane];
  });
}

void RaceQueue::barrier_arrives(const exec::Warp& warp, std::uint32_t number, bool waits, RaceCta& cta) {
  Event& event = add(Event::Kind::arrives, cta, warp.id);
  event.number = number;
  event.waits = waits;
}

void RaceQueue::barrier_completes(const exec::Cta& of, std::uint32_t number, RaceCta& cta) {
  Event& event = add(Event::Kind::completes, cta);
  event.number = number;
  event.is_whole = of.barriers[number].waiting.size() == of.live_warps;
}

void RaceQueue::barrier_passes(const exec::Warp& warp, std::uint32_t number, RaceCta& cta) {
  add(Event::Kind::passes, cta, warp.id).number = number;
}

void RaceQueue::fence(const exec::Warp& warp, exec::Scope scope, exec::FenceKind kind, RaceCta& cta) {
  Event& event = add(Event::Kind::fence, cta, warp.id);
  event.scope = scope;
  event.fence = kind;
  event.lanes = warp.exec;
  event.live = warp.valid & ~warp.exited;
}

void RaceQueue::warp_syncs(const exec::Warp& warp, std::uint32_t lanes, RaceCta& cta) {
  add(Event::Kind::syncs, cta, warp.id).lanes = lanes;
}

void RaceQueue::look_at(Block& block) {
  const std::uint64_t* address = block.addresses.data();
  const exec::LanePattern* pattern = block.patterns.data();
  std::span<const exec::AsyncCopy> copies = block.copies;
  const Racecheck::GroupsDone* done = block.waits.data();
  exec::BarrierObjectUse* use = block.uses.data();
  for (Event& event : block.events) {
    CtaClock& cta = event.cta->clock;
    WarpClock& warp = event.cta->warps[event.warp];
    switch (event.kind) {
      case Event::Kind::access:
        if (event.access.pattern != nullptr) {
          event.access.pattern = pattern++;
          event.access.address = nullptr;
        } else {
          event.access.address = address;
          address += exec::lanes_per_warp;
        }
        warp.live = event.live;
        check_.access(event.access, event.unchanged, warp, cta);
        break;
      case Event::Kind::issued:
        check_.copies_issued(copies.first(event.number), warp, cta);
        copies = copies.subspan(event.number);
        break;
      case Event::Kind::waited:
        check_.copies_waited(event.lanes, *done++, warp);
        break;
      case Event::Kind::arrives:
        check_.barrier_arrives(event.number, event.waits, warp, cta);
        break;
      case Event::Kind::completes:
        check_.barrier_completes(event.number, event.is_whole, cta);
        break;
      case Event::Kind::passes:
        check_.barrier_passes(event.number, warp, cta);
        break;
      case Event::Kind::fence:
        warp.live = event.live;
        check_.fence(event.lanes, event.scope, event.fence, warp, cta);
        break;
      case Event::Kind::object: {
        static constexpr Racecheck::GroupsDone none{};
        const bool joins = use->kind == exec::BarrierObjectUse::Kind::copies_arrive;
        use->place = address;
        warp.live = event.live;
        check_.object_used(*use++, joins ? *done++ : none, warp, cta);
        address += exec::lanes_per_warp;
        break;
      }
      case Event::Kind::syncs:
        check_.warp_syncs(event.lanes, warp, cta);
        break;
      case Event::Kind::ends:
        const std::unique_ptr<RaceCta> ended(event.cta);
        break;
    }
  }
  block.clear();
}

void RaceQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !waiting_.empty() || is_over_; });
    if (waiting_.empty()) return;
    Block block = std::move(waiting_.front());
    waiting_.pop_front();
    is_busy_ = true;
    lock.unlock();
    changed_.notify_all();
    look_at(block);
    lock.lock();
    spare_.push_back(std::move(block));
    is_busy_ = false;
    changed_.notify_all();
  }
}

void RaceQueue::hand_over() {
  if (std::thread::hardware_concurrency() < 2) {
    look_at(open_);
    return;
  }
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < most_waiting; });
  waiting_.push_back(std::move(open_));
  open_ = {};
  if (!spare_.empty()) {
    open_ = std::move(spare_.back());
    spare_.pop_back();
  }
  changed_.notify_all();
}

void RaceQueue::catch_up() {
  if (is_telling_) return;
  if (worker_.joinable()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && !is_busy_; });
  }
  look_at(open_);  // nobody else is at it
  is_telling_ = true;
  check_.tell();
  is_telling_ = false;
}

void RaceQueue::finish() {
  catch_up();
  check_.settle();
  catch_up();
  if (!worker_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  worker_.join();
  is_over_ = false;
}

}  // namespace flashmoe::vgpu::observe
