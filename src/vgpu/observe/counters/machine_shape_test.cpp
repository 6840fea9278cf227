#include "vgpu/observe/counters/machine_shape.hpp"

#include <gtest/gtest.h>

namespace flashmoe::vgpu::observe {
namespace {

TEST(LaunchFit, TheStartingCase) {
  const LaunchFit fit = launch_fit(l4_shape(), {}, {2, 1, 1}, {128, 1, 1}, 90 << 10);
  EXPECT_EQ(fit.held.ctas_per_sm, 1);
  EXPECT_EQ(fit.held.limited_by, SmLimit::shared_memory);
  EXPECT_NEAR(fit.waves, 2.0 / 58, 1e-12);
  EXPECT_EQ(fit.held.by(SmLimit::registers), Occupancy::no_limit);
}

TEST(LaunchFit, Registers) {
  // 128 registers x 32 = 4096 a warp; a quarter of 65536 holds 4 warps: 16 warps, 4 CTAs of 4 warps.
  const LaunchFit fit =
      launch_fit(l4_shape(), {.registers_per_thread = 128, .source = "cubin"}, {58 * 4, 1, 1}, {128, 1, 1}, 0);
  EXPECT_EQ(fit.held.by(SmLimit::registers), 4);
  EXPECT_EQ(fit.held.ctas_per_sm, 4);
  EXPECT_EQ(fit.held.limited_by, SmLimit::registers);
  EXPECT_DOUBLE_EQ(fit.waves, 1.0);
  EXPECT_NEAR(fit.held.share_of_warps, 16.0 / 48, 1e-9);
}

// The image's barriers count, on the GPUs where CTAs share them.
TEST(LaunchFit, Barriers) {
  const Gpu h100 = *find_gpu("h100");
  const MachineShape machine = shape_of(h100, *find_architecture(std::string(h100.architecture)));
  const ImageFacts image{.registers_per_thread = 16, .barriers = 16, .source = "cubin"};
  EXPECT_EQ(launch_fit(machine, image, {1, 1, 1}, {32, 1, 1}, 0).held.ctas_per_sm, 4);
  EXPECT_EQ(launch_fit(machine, image, {1, 1, 1}, {32, 1, 1}, 0).held.limited_by, SmLimit::barriers);
  EXPECT_EQ(launch_fit(l4_shape(), image, {1, 1, 1}, {32, 1, 1}, 0).held.ctas_per_sm, 24);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
