// Page faults are counted by every kernel, also where the processor's own counters are hidden.
#include "support/perf_events.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace flashmoe {
namespace {

constexpr PerfEvent faults[] = {{"page_faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}};
constexpr int pages = 500;

void touch_new_pages() {
  constexpr std::size_t page = 4096;
  void* memory = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, pages * page, MADV_NOHUGEPAGE);
  for (int i = 0; i < pages; ++i) static_cast<volatile char*>(memory)[static_cast<std::size_t>(i) * page] = 1;
  munmap(memory, pages * page);
}

void touch_in_a_child() {
  const pid_t child = fork();
  if (child == 0) {
    touch_new_pages();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

double count_of(const PerfCounters& counters) {
  const auto counts = counters.counts();
  return counts.empty() ? 0 : counts.front().second;
}

TEST(PerfCounters, CountProcessesThatAreStartedLaterAndOnlyWhileTheyAreOn) {
  const auto counters = PerfCounters::open(faults);
  if (!counters) GTEST_SKIP() << counters.error().to_string();
  touch_in_a_child();
  EXPECT_EQ(count_of(*counters), 0) << "off";
  counters->switch_on();
  touch_in_a_child();
  counters->switch_off();
  const double counted = count_of(*counters);
  EXPECT_GE(counted, pages);
  touch_in_a_child();
  EXPECT_EQ(count_of(*counters), counted) << "off again";
}

TEST(PerfCounters, WhatCannotBeCountedIsSaidWithAFix) {
  constexpr PerfEvent nothing[] = {{"dreams", 0xffff, 7}};
  const auto counters = PerfCounters::open(nothing);
  ASSERT_FALSE(counters);
  EXPECT_NE(counters.error().message.find("dreams cannot be counted here (perf_event_open: "), std::string::npos);
  EXPECT_FALSE(counters.error().fix.empty());
}

TEST(PerfCounters, HardwareIsAllowedOrItIsSaidWhyNot) {
  const auto allowed = hardware_counters_allowed();
  if (!allowed) {
    EXPECT_FALSE(allowed.error().fix.empty());
  }
}

}  // namespace
}  // namespace flashmoe
