// What the simulation of sm.cpp keeps of pipes, queues, warps and CTAs.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "predict/sm.hpp"

namespace flashmoe::predict::state {

inline constexpr int sub_partitions = 4;
inline constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint64_t commit_latency = 4;
inline constexpr std::size_t most_queue = 16;
inline constexpr std::size_t most_groups = 32;  // that a warp has open: a DEPBAR names less
inline constexpr std::size_t barriers = 17;     // 16 named ones, and those that a register names

inline std::uint64_t ceil_of(double time) {
  return static_cast<std::uint64_t>(std::ceil(time));
}

// At least one: what happens in a cycle shows in the next.
inline std::uint64_t whole_cycles(const Fact& fact) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(fact.value));
}

constexpr std::size_t index(Pipe pipe) {
  return static_cast<std::size_t>(pipe);
}
constexpr std::size_t index(Stall stall) {
  return static_cast<std::size_t>(stall);
}

// Rule 4. `from` is kept beside it because it is asked for far more often than it changes.
struct PipeState {
  double free = 0;
  std::uint64_t from = 0;

  void hold(std::uint64_t t, double interval) {
    const auto now = static_cast<double>(t);
    free = (now - free < 1 ? free : now) + interval;
    from = ceil_of(free);
  }
};

// Places are left in the order taken, so the queue has room when the place taken `size` instructions ago is free.
class Queue {
 public:
  explicit Queue(double size) : size_(std::clamp<std::size_t>(static_cast<std::size_t>(size), 1, most_queue)) {}
  [[nodiscard]] std::uint64_t room_at() const { return until_[next_]; }
  void take(std::uint64_t until) {
    until_[next_] = until;
    next_ = next_ + 1 == size_ ? 0 : next_ + 1;
  }

 private:
  std::size_t size_;
  std::size_t next_ = 0;
  std::array<std::uint64_t, most_queue> until_{};
};

struct Warp;
struct Cta;

struct Barrier {
  std::uint32_t arrived = 0;
  std::uint32_t wanted = 0;  // warps; 0: all that have not ended
  std::vector<Warp*> waiting{};
};

struct Warp {
  const std::uint32_t* next = nullptr;
  const std::uint32_t* end = nullptr;
  const Operation* operation = nullptr;  // of the next instruction
  Cta* cta = nullptr;
  int partition = 0;
  bool waits = false;  // at a barrier
  // When the next instruction may issue for all that this warp knows of: the largest of the times that follow.
  std::uint64_t ready = 0;
  std::uint64_t since = 0;  // the cycle after its last issue
  std::uint64_t fixed_end = 0;
  std::uint64_t barrier_end = 0;
  std::uint64_t counter_end = 0;
  std::uint64_t group_end = 0;
  std::uint32_t barrier_instruction = 0;
  Stall counter_reason = Stall::short_counter;
  std::array<std::uint64_t, 6> counter_zero{};
  std::array<Stall, 6> counter_holder{};
  std::uint64_t pending = 0;
  std::uint32_t groups = 0;
  std::array<std::uint64_t, most_groups> group_complete{};
};

struct Cta {
  std::uint32_t number = 0;
  int slot = 0;
  std::uint32_t running = 0;
  std::vector<Warp> warps{};
  std::array<Barrier, barriers> at{};
};

struct SubPartition {
  SubPartition(double memory_queue, double xu_queue) : memory(memory_queue), xu(xu_queue) {}
  std::array<PipeState, pipes> pipe{};
  Queue memory;
  Queue xu;
  std::uint64_t local = 0;
  std::vector<Warp*> warps{};  // the oldest first
  Warp* last = nullptr;
  std::uint64_t wake = 0;  // nothing issues before
};

}  // namespace flashmoe::predict::state
