#include "support/perf_events.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace flashmoe {
namespace {

int open_event(const PerfEvent& event) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.disabled = 1;
  attributes.inherit = 1;
  // What a user may count of himself; the kernel's part is nothing a kernel's author can change.
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  constexpr int any_processor = -1, no_group = -1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, any_processor, no_group, PERF_FLAG_FD_CLOEXEC));
}

Diagnostic why_not(const PerfEvent& event, int error) {
  Diagnostic problem{.message = std::string(event.name) +
                                " cannot be counted here (perf_event_open: " + std::strerror(error) + ")"};
  if (error == EACCES || error == EPERM) {
    problem.fix = "sudo sysctl kernel.perf_event_paranoid=2";
  } else {
    problem.fix = "use a machine whose processor shows its counters; many virtual machines do not";
  }
  return problem;
}

}  // namespace

std::span<const PerfEvent> hardware_events() {
  static constexpr std::array events{PerfEvent{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
                                     PerfEvent{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
                                     PerfEvent{"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES}};
  return events;
}

Result<PerfCounters> PerfCounters::open(std::span<const PerfEvent> events) {
  PerfCounters counters;
  for (const PerfEvent& event : events) {
    const int fd = open_event(event);
    if (fd < 0) return why_not(event, errno);
    counters.open_.push_back({event.name, fd});
  }
  return counters;
}

PerfCounters::PerfCounters(PerfCounters&& other) noexcept : open_(std::exchange(other.open_, {})) {}

PerfCounters& PerfCounters::operator=(PerfCounters&& other) noexcept {
  if (this != &other) {
    close_all();
    open_ = std::exchange(other.open_, {});
  }
  return *this;
}

PerfCounters::~PerfCounters() {
  close_all();
}

void PerfCounters::close_all() {
  for (const Open& one : open_) close(one.fd);
  open_.clear();
}

void PerfCounters::switch_on() const {
  for (const Open& one : open_) ioctl(one.fd, PERF_EVENT_IOC_ENABLE, 0);
}

void PerfCounters::switch_off() const {
  for (const Open& one : open_) ioctl(one.fd, PERF_EVENT_IOC_DISABLE, 0);
}

std::vector<std::pair<std::string, double>> PerfCounters::counts() const {
  std::vector<std::pair<std::string, double>> all;
  for (const Open& one : open_) {
    struct {
      std::uint64_t value, enabled, running;
    } seen{};
    if (read(one.fd, &seen, sizeof seen) != sizeof seen || seen.running == 0) return {};
    all.emplace_back(one.name, static_cast<double>(seen.value) * static_cast<double>(seen.enabled) /
                                   static_cast<double>(seen.running));
  }
  return all;
}

Result<Done> hardware_counters_allowed() {
  const auto counters = PerfCounters::open(hardware_events());
  if (!counters) return counters.error();
  return Done{};
}

}  // namespace flashmoe
