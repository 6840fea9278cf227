// Events that the operating system counts (perf_event_open): of the calling thread, and of every process that it starts
// from then on. A worker that lets nobody look into it is counted all the same: the counters came with its birth.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/result.hpp"

namespace flashmoe {

struct PerfEvent {
  const char* name;
  std::uint32_t type;  // as linux/perf_event.h has them
  std::uint64_t config;
};

// Of the processor: "cycles", "instructions", "cache_misses", in user code.
[[nodiscard]] std::span<const PerfEvent> hardware_events();

class PerfCounters {
 public:
  // Switched off. All of the events, or the reason why they may not or cannot be counted here.
  [[nodiscard]] static Result<PerfCounters> open(std::span<const PerfEvent> events);
  PerfCounters(PerfCounters&& other) noexcept;
  PerfCounters& operator=(PerfCounters&& other) noexcept;
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;
  ~PerfCounters();

  void switch_on() const;
  void switch_off() const;
  // By name, since they were opened; scaled where the processor had to take turns between them. Empty: one was never
  // on.
  [[nodiscard]] std::vector<std::pair<std::string, double>> counts() const;

 private:
  struct Open {
    const char* name;
    int fd;
  };
  PerfCounters() = default;
  void close_all();
  std::vector<Open> open_;
};

// Asked anew each time: a setting of the system may change.
[[nodiscard]] Result<Done> hardware_counters_allowed();

}  // namespace flashmoe
