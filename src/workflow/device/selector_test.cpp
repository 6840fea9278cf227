#include "workflow/device/selector.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "workflow/device/capabilities.hpp"

namespace flashmoe::workflow {
namespace {

TEST(Selector, Parses) {
  EXPECT_EQ(parse_device("cpu")->kind, DeviceKind::cpu);
  EXPECT_EQ(parse_device("virtual:h100")->gpu, "h100");
  EXPECT_EQ(parse_device("cuda:3")->ordinal, 3);
  EXPECT_EQ(parse_device("rehearsal:cuda:2")->to_string(), "rehearsal:cuda:2");
  for (const char* wrong : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "virtual:", "virtual:t4", "CPU",
                            "rehearsal:", "rehearsal:0", "rehearsal:cuda:x"})
    EXPECT_FALSE(parse_device(wrong)) << wrong;
}

TEST(Selector, TheFlagWinsOverTheEnvironment) {
  unsetenv("FLASHMOE_DEVICE");
  EXPECT_EQ(select_device("")->from, "default");
  EXPECT_EQ(select_device("", "virtual:h100")->to_string(), "virtual:h100");
  EXPECT_EQ(select_device("", "virtual:h100")->from, "project");
  setenv("FLASHMOE_DEVICE", "virtual:l4", 1);
  EXPECT_EQ(select_device("")->to_string(), "virtual:l4");
  EXPECT_EQ(select_device("cpu")->to_string(), "cpu");
  EXPECT_EQ(select_device("", "virtual:h100")->to_string(), "virtual:l4") << "and the environment over the project";
  setenv("FLASHMOE_DEVICE", "nonsense", 1);
  const auto wrong = select_device("");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message.rfind("FLASHMOE_DEVICE: ", 0), 0U) << wrong.error().message;
  unsetenv("FLASHMOE_DEVICE");
}

TEST(Selector, WhatIsNotThereSaysSoWithAFix) {
  EXPECT_TRUE(device_available(*parse_device("cpu")));
  setenv("FLASHMOE_DRIVER", "/nowhere/libcuda.so.1", 1);
  const auto no_driver = device_available(*parse_device("cuda:0"));
  unsetenv("FLASHMOE_DRIVER");
  ASSERT_FALSE(no_driver);
  EXPECT_EQ(no_driver.error().code, "environment.no_gpu");
  EXPECT_NE(no_driver.error().fix.find("--device"), std::string::npos) << no_driver.error().fix;
}

TEST(Capabilities, SayWhatADeviceCanDo) {
  const Capabilities cpu = capabilities_of(*parse_device("cpu"));
  EXPECT_EQ(cpu.runs, Runs::host_code);
  EXPECT_EQ(cpu.clock, ClockKind::measured);
  EXPECT_TRUE(cpu.counters == CounterKind::hardware || cpu.counters == CounterKind::degraded);
  EXPECT_FALSE(cpu.checks || cpu.schedules || cpu.needs_driver);
  const Capabilities l4 = capabilities_of(*parse_device("virtual:l4"));
  EXPECT_EQ(l4.runs, Runs::cuda_code);
  EXPECT_EQ(l4.clock, ClockKind::none);
  EXPECT_EQ(l4.counters, CounterKind::exact);
  EXPECT_TRUE(l4.checks && l4.schedules);
  const Capabilities gpu = capabilities_of({.kind = DeviceKind::cuda});
  EXPECT_EQ(gpu.runs, Runs::cuda_code);
  EXPECT_EQ(gpu.clock, ClockKind::measured);
  EXPECT_TRUE(gpu.needs_driver && gpu.is_card);
  const Capabilities rehearsal = capabilities_of({.kind = DeviceKind::rehearsal});
  EXPECT_EQ(rehearsal.clock, ClockKind::rehearsed) << "never a card's time";
  EXPECT_TRUE(rehearsal.is_card);
}

}  // namespace
}  // namespace flashmoe::workflow
