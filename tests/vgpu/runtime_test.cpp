// What src/runtime adds to the driver's functions, on the virtual driver.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/driver.hpp"
#include "runtime/timing.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::runtime {
namespace {

TEST(VirtualDriver, IsToldFromACard) {
  EXPECT_TRUE(is_virtual_driver(in_build("vgpu/libcuda.so.1")));
  EXPECT_FALSE(is_virtual_driver("libm.so.6")) << "a library that is no driver at all";
  EXPECT_FALSE(is_virtual_driver("/nowhere/libcuda.so.1"));
  const auto driver = Driver::open(in_build("vgpu/libcuda.so.1"));
  ASSERT_TRUE(driver) << driver.error().to_string();
  EXPECT_TRUE((*driver)->is_virtual());
}

TEST(VirtualDriver, IsAnOlderOneOnRequest) {
  const auto version = [](const char* asked) {
    ::setenv("VGPU_DRIVER_VERSION", asked, 1);
    auto driver = Driver::open(in_build("vgpu/libcuda.so.1"));
    ::unsetenv("VGPU_DRIVER_VERSION");
    return driver;
  };
  EXPECT_EQ((*Driver::open(in_build("vgpu/libcuda.so.1")))->version(), 13000);
  EXPECT_EQ((*version("12000"))->version(), 12000);
  const auto old = version("11080");
  ASSERT_FALSE(old);
  EXPECT_NE(old.error().message.find("CUDA 11.8, too old"), std::string::npos) << old.error().message;
}

// out[tid] = out[tid] * 3 + 1: the order and the number of launches show in the result.
constexpr const char* step = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry step(.param .u64 out) {
  .reg .u32 %r<4>; .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r2, [%rd1]; mad.lo.u32 %r2, %r2, 3, 1; st.global.u32 [%rd1], %r2; ret;
}
)";

class Timing : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto driver = Driver::open(in_build("vgpu/libcuda.so.1"));
    ASSERT_TRUE(driver) << driver.error().to_string();
    auto context = Context::create(*driver);
    ASSERT_TRUE(context) << context.error().to_string();
    context_ = *context;
  }
  std::shared_ptr<Context> context_{};
};

TEST_F(Timing, AGraphOfTwoLaunchesRunsAsOftenAsItIsLaunched) {
  const auto module = Module::load(context_, std::as_bytes(std::span(step, std::strlen(step) + 1)));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto function = (*module)->function("step");
  ASSERT_TRUE(function) << function.error().to_string();
  auto buffer = Buffer::create(context_, 32 * sizeof(unsigned));
  ASSERT_TRUE(buffer) << buffer.error().to_string();
  std::array<unsigned, 32> values{};
  ASSERT_TRUE(buffer->write(std::as_bytes(std::span(values))));

  const auto stream = Stream::create(context_);
  ASSERT_TRUE(stream) << stream.error().to_string();
  auto begin = Event::create(context_), end = Event::create(context_);
  ASSERT_TRUE(begin && end);
  cuda::DeviceAddress address = buffer->address();
  std::array<void*, 1> parameters{&address};
  const auto graph = Graph::capture(*stream, [&]() -> Result<Done> {
    for (int i = 0; i < 2; ++i)
      if (auto put = function->launch({.block = {32, 1, 1}}, parameters, stream->handle()); !put) return put;
    return Done{};
  });
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_TRUE(buffer->read(std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values[5], 0U) << "captured work has been done";

  ASSERT_TRUE(begin->record(*stream));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(graph->launch(*stream));
  ASSERT_TRUE(end->record(*stream));
  ASSERT_TRUE(end->synchronize());
  ASSERT_TRUE(stream->synchronize());
  ASSERT_TRUE(buffer->read(std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values[5], 40U) << "0, 1, 4, 13, 40: four launches";
  const auto seconds = Event::seconds_between(*begin, *end);
  ASSERT_TRUE(seconds) << seconds.error().to_string();
  EXPECT_GT(*seconds, 0);
}

TEST_F(Timing, AnErrorInsideACaptureLeavesTheStreamUsable) {
  const auto stream = Stream::create(context_);
  ASSERT_TRUE(stream);
  const auto broken = Graph::capture(*stream, [&] { return stream->synchronize(); });
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("CAPTURE"), std::string::npos) << broken.error().message;
  EXPECT_TRUE(stream->synchronize()) << "it still captures";
  const auto own = Graph::capture(*stream, []() -> Result<Done> { return Diagnostic{.message = "own"}; });
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().message, "own");
  EXPECT_TRUE(stream->synchronize());
}

TEST_F(Timing, EventsThatWereNeverRecordedHaveNoTime) {
  const auto begin = Event::create(context_), end = Event::create(context_);
  ASSERT_TRUE(begin && end);
  EXPECT_FALSE(Event::seconds_between(*begin, *end));
}

// A virtual driver that gave them one would let a measurement pass that no card makes.
TEST_F(Timing, EventsRecordedInsideACaptureHaveNoTime) {
  const auto stream = Stream::create(context_);
  auto begin = Event::create(context_), end = Event::create(context_);
  ASSERT_TRUE(stream && begin && end);
  const auto graph = Graph::capture(*stream, [&]() -> Result<Done> {
    if (auto recorded = begin->record(*stream); !recorded) return recorded;
    return end->record(*stream);
  });
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_TRUE(graph->launch(*stream));
  ASSERT_TRUE(stream->synchronize());
  EXPECT_FALSE(end->synchronize());
  EXPECT_FALSE(Event::seconds_between(*begin, *end));
  ASSERT_TRUE(begin->record(*stream));
  ASSERT_TRUE(end->record(*stream));
  ASSERT_TRUE(end->synchronize());
  EXPECT_TRUE(Event::seconds_between(*begin, *end)) << "recorded anew, outside of any";
}

TEST_F(Timing, ACardIsKnownByItsBusAndItsUuid) {
  const auto bus = context_->pci_bus_id();
  ASSERT_TRUE(bus) << bus.error().to_string();
  EXPECT_EQ(*bus, "0000:01:00.0");
  const auto uuid = context_->uuid();
  ASSERT_TRUE(uuid) << uuid.error().to_string();
  EXPECT_EQ(*uuid, "GPU-76677075-2d6c-3400-0000-000000000000") << "vgpu-l4, device 0";
}

}  // namespace
}  // namespace flashmoe::runtime
