#include "vgpu/observe/sanitizer/synccheck.hpp"

#include <gtest/gtest.h>

#include <string>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// Half of the lanes shuffle with a mask that names the others too, who go on to a __syncwarp() that is right.
TEST(Synccheck, AWrongMaskIsToldWhereItStands) {
  const std::string module =
      ".file 1 \"mask.cu\"\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n" + exec::prologue() + R"(
  setp.lt.u32 %p1, %r3, 16;
  @%p1 bra meet;
  .loc 1 7 0
  shfl.sync.bfly.b32 %r6, %r3, 1, 31, 0xffffffff;
meet:
  .loc 1 9 0
  bar.warp.sync 0xffffffff;
  ret;
}
)";
  for (const bool turned : {false, true}) {  // whoever waits first
    std::string text = module;
    if (turned) text.replace(text.find("setp.lt"), 7, "setp.ge");
    Watch watch;
    exec::PtxRunner runner(text, exec::Mode::observed);
    runner.launch.observer = &watch;
    EXPECT_EQ(runner.run(1, 32, {0}).fault.kind, exec::Fault::Kind::deadlock);
    ASSERT_EQ(watch.log().findings().size(), 1u);
    const Finding& found = watch.log().findings()[0];
    EXPECT_EQ(found.at.source_line, 7) << found.to_text();
    EXPECT_EQ(found.at.thread.x, turned ? 0u : 16u);
    ASSERT_TRUE(found.other);
    EXPECT_EQ(found.other->source_line, 9);
    EXPECT_EQ(found.other->thread.x, turned ? 16u : 0u);
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
