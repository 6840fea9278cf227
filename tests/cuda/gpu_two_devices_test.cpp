// Two GPUs in one process (VGPU_COUNT=2): a thread each, and one thread for both, whichever context is current.
#include <gtest/gtest.h>

#include <thread>

#include "cuda/device_run.hpp"

namespace flashmoe::testing {
namespace {

using runtime::cuda::success;

struct Machine {
  std::shared_ptr<const runtime::Driver> driver;
  std::shared_ptr<runtime::Context> devices[2];
};

const Machine& machine() {
  static const Machine only = [] {
    setenv("VGPU_COUNT", "2", 1);
    setenv("VGPU_CHECK", "memcheck", 0);
    setenv("VGPU_PTXAS", "off", 0);  // tiles and splits are forced
    setenv("VGPU_LOG", "off", 0);
    Machine made{must(runtime::Driver::open(runtime::system_driver_library())), {}};
    for (int i = 0; i < 2; ++i) made.devices[i] = must(runtime::Context::create(made.driver, i));
    return made;
  }();
  return only;
}

const fms_attention_problem small_problem = simple_problem(FMS_F16, {1, 2, 1, 16, 64, 32});

TEST(TwoDevices, AreThere) {
  int count = 0;
  const runtime::cuda::Functions& call = machine().driver->call();
  ASSERT_EQ(call.device_count(&count), success);
  EXPECT_EQ(count, 2);
  runtime::cuda::DeviceHandle device = -1;
  EXPECT_NE(call.device_get(&device, 2), success);
  for (int i = 0; i < 2; ++i) {
    const runtime::Context::Current current(*machine().devices[i]);
    ASSERT_EQ(call.context_device(&device), success);
    EXPECT_EQ(device, i);
  }
  fms_error error{};
  fms_context_options options{sizeof(fms_context_options), FMS_DEVICE_CUDA, 2, FMS_ISA_AUTO};
  fms_context* none = nullptr;
  EXPECT_EQ(fms_context_create(&options, &none, &error), FMS_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("allowed: 0 to 1"), std::string::npos) << error.message;
}

TEST(TwoDevices, AThreadForEach) {
  std::string complaints[2];
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      try {
        const auto& device = machine().devices[i];
        const runtime::Context::Current current(*device);
        DeviceRun run(device, i, small_problem, static_cast<uint64_t>(i) + 1);
        run.plan();
        run.allocate();
        for (int turn = 0; turn < 3; ++turn) {
          fms_error error{};
          run.spoil();
          if (run.run(nullptr, &error) != FMS_OK) complaints[i] += error.message;
          complaints[i] += run.complaint();
        }
      } catch (const std::exception& problem_of_it) {
        complaints[i] = problem_of_it.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complaints[0], "");
  EXPECT_EQ(complaints[1], "");
}

// Without a stream, with the device's own stream; and with the other device current.
TEST(TwoDevices, OneThreadForBoth) {
  const runtime::cuda::Functions& call = machine().driver->call();
  DeviceRun first(machine().devices[0], 0, small_problem, 1), second(machine().devices[1], 1, small_problem, 2);
  DeviceRun* const runs[] = {&first, &second};
  for (DeviceRun* run : runs) {
    run->plan();
    run->allocate();
  }
  for (int current_device = -1; current_device < 2; ++current_device) {
    std::optional<runtime::Context::Current> current;
    if (current_device >= 0) current.emplace(*machine().devices[current_device]);
    for (int i = 0; i < 2; ++i) {
      fms_error error{};
      runs[i]->spoil();
      ASSERT_EQ(runs[i]->run(nullptr, &error), FMS_OK) << error.message << ", current " << current_device;
      EXPECT_EQ(runs[i]->complaint(), "");
      runtime::cuda::StreamHandle stream = nullptr;
      {
        const runtime::Context::Current there(*machine().devices[i]);
        ASSERT_EQ(call.stream_create(&stream, 1), success);
      }
      runs[i]->spoil();
      ASSERT_EQ(runs[i]->run(stream, &error), FMS_OK) << error.message << ", current " << current_device;
      EXPECT_EQ(runs[i]->complaint(), "");
      const runtime::Context::Current there(*machine().devices[i]);
      EXPECT_EQ(call.stream_destroy(stream), success);
    }
    runtime::cuda::DeviceHandle now = -1;
    if (current_device >= 0) {
      ASSERT_EQ(call.context_device(&now), success);
      EXPECT_EQ(now, current_device) << "what was current is so no more";
    }
  }
}

// More shared memory is allowed for one device at a time: what one context loaded is not the other's.
TEST(TwoDevices, EachLoadsForItself) {
  DeviceRun first(machine().devices[0], 0, simple_problem(FMS_BF16, {1, 1, 1, 16, 64, 128}));
  DeviceRun second(machine().devices[1], 1, simple_problem(FMS_BF16, {1, 1, 1, 16, 64, 128}));
  first.plan();
  second.plan();
  EXPECT_EQ(first.made_plan().instance, second.made_plan().instance);
  for (DeviceRun* run : {&second, &first}) {
    fms_error error{};
    run->allocate();
    ASSERT_EQ(run->run(nullptr, &error), FMS_OK) << error.message;
    EXPECT_EQ(run->complaint(), "");
  }
}

}  // namespace
}  // namespace flashmoe::testing
