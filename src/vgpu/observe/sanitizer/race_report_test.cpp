#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// s[t] = s[t + 1], all on one line: the next lane's word, and for the last lane that of the next warp.
TEST(RaceReport, RacesWithinAWarpHideNoneAcrossWarps) {
  const std::string module = ".file 1 \"shift.cu\"\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n" +
                             std::string("  .shared .align 4 .b8 s[512];\n") + exec::prologue() + R"(
  mov.u32 %r6, s;
  mad.lo.u32 %r6, %r1, 4, %r6;
  st.shared.u32 [%r6], %r1;
  bar.sync 0;
  .loc 1 7 0
  ld.shared.u32 %r7, [%r6+4];
  st.shared.u32 [%r6], %r7;
  ret;
}
)";
  Watch watch({.initcheck = false});
  exec::PtxRunner runner(module, exec::Mode::observed);
  runner.launch.observer = &watch;
  EXPECT_EQ(runner.run(1, 64, {0}).fault.kind, exec::Fault::Kind::none);
  const auto findings = watch.log().findings();
  const auto is_told = [&](Cause cause) {
    return std::count_if(findings.begin(), findings.end(), [cause](const Finding& one) { return one.cause == cause; });
  };
  EXPECT_EQ(is_told(Cause::lanes), 1) << watch.log().to_text();
  EXPECT_EQ(is_told(Cause::order), 1) << watch.log().to_text();
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
