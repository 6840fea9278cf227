#include "predict/sm.hpp"

#include <algorithm>
#include <memory>

#include "predict/sm_state.hpp"

namespace flashmoe::predict {
namespace {

using namespace state;

class Sm {
 public:
  Sm(const Program& program, std::span<const CtaPath> paths, const SmSetup& setup)
      : operations_(program.operations.data()),
        paths_(paths),
        setup_(setup),
        barrier_latency_(whole_cycles(program.machine.parameters.barrier_latency)),
        memory_interval_(whole_cycles(program.machine.parameters.memory_interval)),
        cta_gap_(std::max<std::uint64_t>(1, setup.gap)),
        fma_interval_(program.machine.interval(Kind::fma)) {
    const Parameters& facts = program.machine.parameters;
    for (int i = 0; i < sub_partitions; ++i)
      partitions_.emplace_back(facts.memory_queue.value, facts.transcendental_queue.value);
    run_.stalled.resize(program.operations.size());
    run_.ctas.resize(static_cast<std::size_t>(setup.ctas));
    slots_.resize(static_cast<std::size_t>(std::min(setup.resident, setup.ctas)));
  }

  SmRun run() {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) start_cta(static_cast<int>(slot), slot * setup_.offset);
    while (ended_ < setup_.ctas) {
      std::uint64_t t = never;
      for (const SubPartition& partition : partitions_) t = std::min(t, partition.wake);
      if (t == never) {
        force_barriers();
        continue;
      }
      now_ = t;
      for (SubPartition& partition : partitions_)
        if (partition.wake <= t) step(partition, t);
    }
    run_.cycles = now_ + 1;
    return std::move(run_);
  }

 private:
  void start_cta(int slot, std::uint64_t t) {
    auto& cta = slots_[static_cast<std::size_t>(slot)];
    cta = std::make_unique<Cta>();
    cta->number = started_++;
    cta->slot = slot;
    const CtaPath& path = paths_[cta->number % paths_.size()];
    const std::size_t warps = path.warps.size();
    cta->running = static_cast<std::uint32_t>(warps);
    cta->warps.resize(warps);
    run_.ctas[cta->number].begin = t;
    for (std::size_t w = 0; w < warps; ++w) {
      Warp& warp = cta->warps[w];
      const auto& instructions = path.warps[w].instructions;
      warp.next = instructions.data();
      warp.end = instructions.data() + instructions.size();
      warp.operation = operations_ + *warp.next;
      warp.cta = cta.get();
      const std::size_t shift = warps % sub_partitions == 0 ? 0 : static_cast<std::size_t>(slot) * warps;
      warp.partition = static_cast<int>((w + shift) % sub_partitions);
      warp.ready = warp.since = t + w * (setup_.offset % 4);
      SubPartition& partition = partitions_[static_cast<std::size_t>(warp.partition)];
      partition.warps.push_back(&warp);
      partition.wake = std::min(partition.wake, warp.ready);
    }
  }

  // When the pipe or the queue of an instruction takes it.
  static std::uint64_t takes_at(const SubPartition& partition, const Operation& operation) {
    switch (operation.kind) {
      case Kind::tensor:
      case Kind::fma:
      case Kind::fp16:
      case Kind::fp64:
      case Kind::alu:
      case Kind::add:
      case Kind::uniform:
        return partition.pipe[index(operation.pipe)].from;
      case Kind::fma_heavy:
        return std::max(partition.pipe[index(Pipe::fma_heavy)].from, partition.pipe[index(Pipe::fma)].from);
      case Kind::conversion:
      case Kind::transcendental:
        return partition.xu.room_at();
      case Kind::shared:
      case Kind::shuffle:
      case Kind::global:
      case Kind::local:
      case Kind::async_copy:
        return partition.memory.room_at();
      default:
        return 0;
    }
  }

  void step(SubPartition& partition, std::uint64_t t) {
    std::uint64_t wake = never;
    const auto may_issue = [&](const Warp& warp) {
      if (warp.waits) return false;
      std::uint64_t from = warp.ready;
      if (from <= t) from = std::max(from, takes_at(partition, *warp.operation));
      if (from <= t) return true;
      wake = std::min(wake, from);
      return false;
    };
    Warp* chosen = partition.last != nullptr && may_issue(*partition.last) ? partition.last : nullptr;
    for (std::size_t i = partition.warps.size(); chosen == nullptr && i-- > 0;)
      if (partition.warps[i] != partition.last && may_issue(*partition.warps[i])) chosen = partition.warps[i];
    partition.wake = chosen != nullptr ? t + 1 : wake;
    if (chosen != nullptr) issue(partition, *chosen, t);
  }

  void issue(SubPartition& partition, Warp& warp, std::uint64_t t) {
    const Operation& operation = *warp.operation;
    account(partition, warp, t);
    ++run_.instructions;
    partition.last = &warp;
    execute(partition, warp, operation, t);
    warp.since = t + 1;
    const std::uint32_t instruction = *warp.next;
    ++warp.next;
    if (operation.kind == Kind::barrier) arrive(warp, operation, instruction, t);
    if (warp.next == warp.end)
      end_warp(partition, warp, t);
    else
      prepare(warp, t + operation.stall);
  }

  // Rules 2, 3 and 7, for the next instruction.
  void prepare(Warp& warp, std::uint64_t fixed_end) {
    const Operation& operation = operations_[*warp.next];
    warp.operation = &operation;
    warp.fixed_end = fixed_end;
    warp.counter_end = 0;
    for (unsigned mask = operation.wait_mask, k = 0; mask != 0; mask >>= 1, ++k)
      if ((mask & 1) != 0 && warp.counter_zero[k] > warp.counter_end) {
        warp.counter_end = warp.counter_zero[k];
        warp.counter_reason = warp.counter_holder[k];
      }
    warp.group_end = 0;
    if (operation.kind == Kind::wait_counters && warp.groups > operation.groups)
      warp.group_end = warp.group_complete[(warp.groups - 1 - operation.groups) % most_groups];
    warp.ready = std::max({warp.fixed_end, warp.counter_end, warp.group_end, warp.barrier_end});
  }

  static void raise(Warp& warp, std::uint8_t counter, std::uint64_t zero_at, Stall holder) {
    if (counter >= Operation::no_counter || warp.counter_zero[counter] >= zero_at) return;
    warp.counter_zero[counter] = zero_at;
    warp.counter_holder[counter] = holder;
  }

  void execute(SubPartition& partition, Warp& warp, const Operation& operation, std::uint64_t t) {
    std::uint64_t begin = t;
    std::uint64_t result = t + operation.latency;
    Stall holder = Stall::short_counter;
    switch (operation.kind) {
      case Kind::fma_heavy:
        partition.pipe[index(Pipe::fma)].hold(t, std::min(operation.interval, fma_interval_));
        [[fallthrough]];
      case Kind::tensor:
      case Kind::fma:
      case Kind::fp16:
      case Kind::fp64:
      case Kind::alu:
      case Kind::add:
      case Kind::uniform:
        partition.pipe[index(operation.pipe)].hold(t, operation.interval);
        run_.busy[index(operation.pipe)] += operation.interval;
        break;
      case Kind::conversion:
      case Kind::transcendental: {
        PipeState& xu = partition.pipe[index(Pipe::xu)];
        begin = std::max(t, xu.from);
        xu.from = begin + ceil_of(operation.interval);
        partition.xu.take(xu.from);
        run_.busy[index(Pipe::xu)] += operation.interval;
        result = begin + operation.latency;
        break;
      }
      case Kind::shared:
      case Kind::shuffle:
      case Kind::global:
      case Kind::local:
      case Kind::async_copy:
        begin = std::max({t, partition.local, port_});
        result = memory_result(operation, begin);
        partition.local = begin + memory_interval_;
        partition.memory.take(begin + 1);
        run_.busy[index(Pipe::memory)] += static_cast<double>(memory_interval_);
        if (operation.kind == Kind::async_copy) warp.pending = std::max(warp.pending, result);
        if (operation.kind == Kind::global || operation.kind == Kind::local) holder = Stall::long_counter;
        break;
      case Kind::async_commit: {
        const std::uint64_t before = warp.groups == 0 ? 0 : warp.group_complete[(warp.groups - 1) % most_groups];
        result = std::max({warp.pending, t + commit_latency, before});
        warp.group_complete[warp.groups++ % most_groups] = result;
        holder = Stall::async_copy;
        break;
      }
      default:
        break;
    }
    raise(warp, operation.write_counter, result, holder);
    raise(warp, operation.read_counter, begin + operation.source_latency, holder);
  }

  std::uint64_t memory_result(const Operation& operation, std::uint64_t begin) {
    port_ = begin + operation.wavefronts;
    run_.busy[index(Pipe::port)] += operation.wavefronts;
    if (operation.kind == Kind::local) return begin + operation.latency;
    if (operation.kind == Kind::shared || operation.kind == Kind::shuffle)
      return begin + operation.wavefronts - 1 + operation.latency;
    l2_ = std::max(l2_, static_cast<double>(begin)) + operation.l2_clocks;
    run_.busy[index(Pipe::l2)] += operation.l2_clocks;
    return ceil_of(l2_) + operation.latency;
  }

  void arrive(Warp& warp, const Operation& operation, std::uint32_t instruction, std::uint64_t t) {
    Barrier& barrier = warp.cta->at[operation.barrier];
    ++barrier.arrived;
    if (!operation.arrives_only) {
      warp.waits = true;
      warp.barrier_instruction = instruction;
      barrier.waiting.push_back(&warp);
    }
    barrier.wanted = operation.barrier_warps;
    release_if_complete(*warp.cta, barrier, t);
  }

  void release_if_complete(const Cta& cta, Barrier& barrier, std::uint64_t t) {
    if (barrier.arrived != 0 && barrier.arrived >= (barrier.wanted != 0 ? barrier.wanted : cta.running))
      release(barrier, t + barrier_latency_);
  }

  void release(Barrier& barrier, std::uint64_t at) {
    barrier.arrived = 0;
    for (Warp* warp : barrier.waiting) {
      warp->waits = false;
      warp->barrier_end = at;
      warp->ready = std::max(warp->ready, at);
      SubPartition& partition = partitions_[static_cast<std::size_t>(warp->partition)];
      partition.wake = std::min(partition.wake, warp->ready);
    }
    barrier.waiting.clear();
  }

  void force_barriers() {
    ++run_.forced_barriers;
    for (const auto& cta : slots_)
      if (cta != nullptr)
        for (Barrier& barrier : cta->at) release(barrier, now_ + barrier_latency_);
  }

  void end_warp(SubPartition& partition, Warp& warp, std::uint64_t t) {
    std::erase(partition.warps, &warp);
    partition.last = nullptr;
    Cta& cta = *warp.cta;
    for (Barrier& barrier : cta.at) std::erase(barrier.waiting, &warp);
    if (--cta.running == 0) {
      ++ended_;
      run_.ctas[cta.number].end = t + 1;
      const int slot = cta.slot;
      if (started_ < static_cast<std::uint32_t>(setup_.ctas)) start_cta(slot, t + cta_gap_);
      return;
    }
    for (Barrier& barrier : cta.at) release_if_complete(cta, barrier, t);
  }

  // Where the cycles since its last issue went. The segments follow each other and end with the issue.
  void account(const SubPartition& partition, const Warp& warp, std::uint64_t t) {
    const Operation& operation = *warp.operation;
    StallCycles& cycles = run_.stalled[*warp.next];
    std::uint64_t at = warp.since;
    const auto until = [&](std::uint64_t end, Stall why, StallCycles& whose) {
      end = std::min(end, t);
      if (end <= at) return;
      whose[index(why)] += end - at;
      at = end;
    };
    until(warp.fixed_end, Stall::fixed, cycles);
    if (warp.barrier_end > at) until(warp.barrier_end, Stall::barrier, run_.stalled[warp.barrier_instruction]);
    until(warp.counter_end, warp.counter_reason, cycles);
    until(warp.group_end, Stall::async_copy, cycles);
    if (at < t) until(takes_at(partition, operation), pipe_stall(operation), cycles);
    until(t, Stall::not_selected, cycles);
    cycles[index(Stall::issue)] += 1;
  }

  static Stall pipe_stall(const Operation& operation) {
    if (operation.kind == Kind::tensor) return Stall::tensor_pipe;
    return operation.wavefronts != 0 ? Stall::memory_queue : Stall::math_pipe;
  }

  const Operation* operations_;
  std::span<const CtaPath> paths_;
  SmSetup setup_;
  std::uint64_t barrier_latency_;
  std::uint64_t memory_interval_;
  std::uint64_t cta_gap_;
  double fma_interval_;
  std::vector<SubPartition> partitions_{};
  std::vector<std::unique_ptr<Cta>> slots_{};
  std::uint64_t port_ = 0;
  double l2_ = 0;
  std::uint64_t now_ = 0;
  std::uint32_t started_ = 0;
  int ended_ = 0;
  SmRun run_{};
};

Result<Done> check(const Program& program, std::span<const CtaPath> paths, const SmSetup& setup) {
  if (paths.empty() || setup.ctas < 1 || setup.resident < 1)
    return Diagnostic{.message = "nothing to simulate: no path, no CTA, or none resident"};
  std::size_t most_warps = 0;
  for (const CtaPath& path : paths) {
    most_warps = std::max(most_warps, path.warps.size());
    if (path.warps.empty()) return Diagnostic{.message = "a CTA without warps"};
    for (const WarpPath& warp : path.warps) {
      if (warp.instructions.empty()) return Diagnostic{.message = "a warp that executes nothing"};
      for (const std::uint32_t i : warp.instructions)
        if (i >= program.operations.size())
          return Diagnostic{.message = "a path names instruction " + std::to_string(i) + " of " +
                                       std::to_string(program.operations.size())};
    }
  }
  const auto room = static_cast<std::size_t>(program.machine.architecture.max_warps_per_sm);
  if (most_warps * static_cast<std::size_t>(setup.resident) > room)
    return Diagnostic{.message = std::to_string(setup.resident) + " CTAs of " + std::to_string(most_warps) +
                                 " warps do not fit into an SM of " + std::to_string(room)};
  return Done{};
}

}  // namespace

std::string_view name_of(Stall stall) {
  static constexpr std::array<std::string_view, stalls> names{"issue",
                                                              "fixed latency",
                                                              "global memory",
                                                              "shared memory and special",
                                                              "asynchronous copy",
                                                              "barrier",
                                                              "tensor pipe",
                                                              "math pipe",
                                                              "memory queue",
                                                              "not selected"};
  return names[index(stall)];
}

double SmRun::use(Pipe pipe) const {
  const bool shared_by_all = pipe == Pipe::port || pipe == Pipe::l2;
  return cycles == 0 ? 0 : busy[index(pipe)] / static_cast<double>(cycles) / (shared_by_all ? 1 : sub_partitions);
}

double SmRun::issue_use() const {
  return cycles == 0 ? 0 : static_cast<double>(instructions) / static_cast<double>(cycles) / sub_partitions;
}

Result<SmRun> simulate(const Program& program, std::span<const CtaPath> paths, const SmSetup& setup) {
  if (const auto checked = check(program, paths, setup); !checked) return checked.error();
  return Sm(program, paths, setup).run();
}

}  // namespace flashmoe::predict
