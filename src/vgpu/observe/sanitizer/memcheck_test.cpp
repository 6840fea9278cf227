#include "vgpu/observe/sanitizer/memcheck.hpp"

#include <gtest/gtest.h>

#include <string>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// Each thread reads beyond the buffer, three times a round; a line of CUDA, unrolled.
exec::Outcome read_beyond(Watch& watch, std::uint64_t rounds) {
  const std::string module =
      ".file 1 \"stray.cu\"\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n" + exec::prologue() + R"(
  cvt.u32.u64 %r5, %rd9;
again:
  .loc 1 7 0
  ld.global.u32 %r6, [%rd1+1048576];
  ld.global.u32 %r7, [%rd1+1048580];
  ld.global.u32 %r8, [%rd1+1048584];
  sub.u32 %r5, %r5, 1;
  setp.ne.u32 %p1, %r5, 0;
  @%p1 bra again;
  ret;
}
)";
  exec::PtxRunner runner(module, exec::Mode::observed);
  runner.launch.observer = &watch;
  return runner.run(1, 32, {rounds});
}

// A word read at the buffer's address and the given offset.
std::string told_of_read_at(std::uint64_t offset) {
  const std::string module = ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n" + exec::prologue() + R"(
  add.u64 %rd1, %rd1, %rd9;
  ld.global.u32 %r6, [%rd1];
  ret;
}
)";
  Watch watch;
  exec::PtxRunner runner(module, exec::Mode::observed);
  runner.launch.observer = &watch;
  static_cast<void>(runner.run(1, 1, {offset}));
  return watch.log().findings().empty() ? "" : watch.log().findings()[0].message;
}

TEST(Memcheck, SaysWhereAnAccessWent) {
  EXPECT_EQ(told_of_read_at(0), "");
  EXPECT_EQ(told_of_read_at(65536 + 8), "read of 4 bytes 8 bytes past the end of buffer (65536 bytes)");
  EXPECT_EQ(told_of_read_at(std::uint64_t(0) - 4), "read of 4 bytes 4 bytes before buffer (65536 bytes)");
  EXPECT_EQ(told_of_read_at(std::uint64_t{1} << 60),
            "read of 4 bytes where no memory of this GPU is (a host pointer?)");
}

TEST(Memcheck, GoesOnAfterAFinding) {
  Watch watch;
  EXPECT_EQ(read_beyond(watch, 10).fault.kind, exec::Fault::Kind::none);
  ASSERT_EQ(watch.log().findings().size(), 1u);
  EXPECT_EQ(watch.log().findings()[0].times, 960u);
}

TEST(Memcheck, EndsALaunchThatStraysForGood) {
  constexpr std::uint64_t most = 1 << 10;
  Watch watch({.most_strays = most});
  const exec::Outcome outcome = read_beyond(watch, 4'000'000'000);
  EXPECT_EQ(outcome.fault.kind, exec::Fault::Kind::illegal_address) << outcome.fault.message;
  ASSERT_EQ(watch.log().findings().size(), 1u) << "the end of the launch is no finding of its own";
  EXPECT_NE(watch.log().findings()[0].at.pc, outcome.fault.pc) << "it is met at another copy of the line";
  EXPECT_LE(watch.log().findings()[0].times, most + exec::lanes_per_warp);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
