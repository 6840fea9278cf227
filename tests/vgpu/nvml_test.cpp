// src/runtime/nvml.hpp on the stand-in for NVML that lies beside the virtual driver.
#include "runtime/nvml.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/device.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::runtime {
namespace {

constexpr const char* bus = "0000:01:00.0";

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("FLASHMOE_NVML");
    ::unsetenv("VGPU_NVML");
  }
  static Result<CardState> state(const char* settings) {
    ::setenv("VGPU_NVML", settings, 1);
    const auto nvml = Nvml::open(nvml_library(in_build("vgpu/libcuda.so.1")));
    if (!nvml) return nvml.error();
    return (*nvml)->state(bus);
  }
};

TEST_F(NvmlTest, TheCardIsTheDriversAndSaysThatItIsVirtual) {
  const auto driver = Driver::open(in_build("vgpu/libcuda.so.1"));
  ASSERT_TRUE(driver) << driver.error().to_string();
  const auto context = Context::create(*driver);
  ASSERT_TRUE(context) << context.error().to_string();
  const auto nvml = Nvml::open(nvml_library((*driver)->library()));
  ASSERT_TRUE(nvml) << nvml.error().to_string();
  const auto place = (*context)->pci_bus_id();
  ASSERT_TRUE(place);
  const auto card = (*nvml)->state(*place);
  ASSERT_TRUE(card) << card.error().to_string();
  EXPECT_EQ(card->name, (*context)->device_name());
  EXPECT_EQ(card->name, "NVIDIA L4 (virtual)");
  EXPECT_EQ(card->uuid, *(*context)->uuid());
  EXPECT_EQ(card->driver_version, "580.65.06 (virtual)");
  EXPECT_EQ(card->sm_clock_mhz, 2040U);
  EXPECT_EQ(card->max_memory_clock_mhz, 6251U);
  EXPECT_EQ(card->power_limit_watts, 72.0);
  EXPECT_EQ(card->memory_bytes, std::uint64_t{24} << 30U);
  EXPECT_EQ(card->clock_reasons, 0U);
  EXPECT_FALSE(card->ecc) << "nobody has said it of this card";
  ASSERT_TRUE(card->processes);
  ASSERT_EQ(card->processes->size(), 1U);
  EXPECT_EQ(card->processes->front().pid, static_cast<unsigned>(getpid()));
}

TEST_F(NvmlTest, WhatIsWrongWithTheCardIsTold) {
  const auto card = state("throttle=power,thermal;other_process=4242:1024;temperature=84;mig=on;limit=40");
  ASSERT_TRUE(card) << card.error().to_string();
  EXPECT_EQ(clock_reason_words(*card->clock_reasons), (std::vector<std::string>{"power cap", "thermal slowdown"}));
  EXPECT_TRUE(spoils_times(*card->clock_reasons));
  EXPECT_EQ(card->sm_clock_mhz, 795U) << "the base clock";
  EXPECT_EQ(card->temperature_celsius, 84U);
  EXPECT_EQ(card->mig, true);
  EXPECT_EQ(card->power_limit_watts, 40.0);
  EXPECT_EQ(card->default_power_limit_watts, 72.0);
  EXPECT_EQ(card->memory_used_bytes, std::uint64_t{1} << 30U);
  EXPECT_EQ(std::count_if(
                card->processes->begin(), card->processes->end(),
                [](const CardProcess& one) { return one.pid == 4242 && one.memory_bytes == std::uint64_t{1} << 30U; }),
            1);
}

TEST_F(NvmlTest, MoreProcessesThanOneExpectsAreAllListed) {
  std::string many;
  for (int i = 0; i < 100; ++i) many += "other_process=" + std::to_string(5000 + i) + ";";
  const auto card = state(many.c_str());
  ASSERT_TRUE(card) << card.error().to_string();
  ASSERT_TRUE(card->processes);
  EXPECT_EQ(card->processes->size(), 101U);
}

TEST_F(NvmlTest, WhatACardDoesNotTellIsEmptyAndTheRestIsThere) {
  const auto card = state("unsupported=power,utilization,processes,limit,clocks,max_clocks,memory,persistence");
  ASSERT_TRUE(card) << card.error().to_string();
  EXPECT_FALSE(card->power_watts || card->gpu_utilization_percent || card->processes || card->power_limit_watts ||
               card->sm_clock_mhz || card->max_sm_clock_mhz || card->memory_bytes || card->persistence_mode);
  EXPECT_TRUE(card->temperature_celsius);
  EXPECT_TRUE(card->name);
}

TEST_F(NvmlTest, AnOlderDriversReasonsAreFoundUnderTheirOldName) {
  const auto card = state("driver=525.60.13;throttle=hardware_thermal");
  ASSERT_TRUE(card) << card.error().to_string();
  EXPECT_EQ(card->driver_version, "525.60.13 (virtual)");
  EXPECT_EQ(card->clock_reasons, nvml::reason_hardware_thermal);
}

TEST_F(NvmlTest, AFileChangesTheCardWhileTheProgramRuns) {
  const auto path = std::filesystem::temp_directory_path() / ("vgpu_nvml_" + std::to_string(getpid()));
  std::ofstream(path) << "temperature=50\n";
  ::setenv("VGPU_NVML", ("@" + path.string()).c_str(), 1);
  const auto nvml = Nvml::open(nvml_library(in_build("vgpu/libcuda.so.1")));
  ASSERT_TRUE(nvml) << nvml.error().to_string();
  EXPECT_EQ((*nvml)->state(bus)->temperature_celsius, 50U);
  std::ofstream(path) << "temperature=91\nthrottle=thermal\n";
  const auto card = (*nvml)->state(bus);
  EXPECT_EQ(card->temperature_celsius, 91U);
  EXPECT_TRUE(spoils_times(*card->clock_reasons));
  std::filesystem::remove(path);
}

TEST_F(NvmlTest, EveryAbsenceIsADiagnosticWithAFix) {
  const auto check = [](const Diagnostic& error, const char* words) {
    EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
    EXPECT_FALSE(error.fix.empty()) << error.message;
  };
  const auto nowhere = Nvml::open("/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(nowhere);
  check(nowhere.error(), "does not load");
  const auto other = Nvml::open("libm.so.6");
  ASSERT_FALSE(other);
  check(other.error(), "no NVML");
  const auto asleep = state("fault=not_loaded");
  ASSERT_FALSE(asleep);
  check(asleep.error(), "not loaded");
  const auto lost = state("fault=lost");
  ASSERT_FALSE(lost);
  check(lost.error(), "fallen off the bus");
  const auto wrong = state("colour=blue");
  ASSERT_FALSE(wrong);
  ::unsetenv("VGPU_NVML");
  const auto nvml = Nvml::open(nvml_library(in_build("vgpu/libcuda.so.1")));
  ASSERT_TRUE(nvml);
  const auto absent = (*nvml)->state("0000:09:00.0");
  ASSERT_FALSE(absent);
  check(absent.error(), "0000:09:00.0");
  EXPECT_FALSE((*nvml)->state("somewhere"));
}

TEST_F(NvmlTest, TheLibraryIsTheVariablesThenTheDriversThenTheSystems) {
  EXPECT_EQ(nvml_library("libcuda.so.1"), "libnvidia-ml.so.1");
  EXPECT_EQ(nvml_library("/nowhere/libcuda.so.1"), "libnvidia-ml.so.1");
  const auto beside = std::filesystem::path(in_build("vgpu/libcuda.so.1")).parent_path() / "libnvidia-ml.so.1";
  EXPECT_EQ(nvml_library(in_build("vgpu/libcuda.so.1")), beside.string());
  ::setenv("FLASHMOE_NVML", "/own/nvml.so", 1);
  EXPECT_EQ(nvml_library(in_build("vgpu/libcuda.so.1")), "/own/nvml.so");
}

TEST(ClockReasons, OnlyIdleAndSetClocksLeaveATimeTheCards) {
  EXPECT_FALSE(spoils_times(0));
  EXPECT_FALSE(spoils_times(nvml::reason_idle | nvml::reason_application_clocks));
  for (const ClockReason& one : all_clock_reasons())
    EXPECT_EQ(spoils_times(one.bit), one.bit > nvml::reason_application_clocks) << one.words;
  EXPECT_TRUE(spoils_times(std::uint64_t{1} << 40U)) << "a reason of a later driver";
  EXPECT_EQ(clock_reason_words(std::uint64_t{1} << 40U).at(0), "reason of bit 40");
}

}  // namespace
}  // namespace flashmoe::runtime
