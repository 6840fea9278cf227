// A kernel that does a little of everything, launched once on the virtual GPU: its report, and what the driver says of
// it. What a card would answer is rehearsed with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/kernel_facts.hpp"
#include "workflow/card/card_profile.hpp"
#include "workflow/gpu/launch_report.hpp"

namespace flashmoe::workflow {

inline constexpr const char* everything_ptx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry everything(.param .u64 data, .param .u64 counter)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .f32 %f<6>;
  .reg .b64 %rd<10>;
  .local .align 4 .b8 scratch[64];
  .shared .align 16 .b8 tile[8192];
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [counter];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 16;
  add.s64 %rd4, %rd1, %rd3;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 4;
  add.s32 %r4, %r2, %r3;
  cp.async.ca.shared.global [%r4], [%rd4], 16;
  cp.async.wait_all;
  bar.sync 0;
  shl.b32 %r5, %r1, 6;
  and.b32 %r5, %r5, 4095;
  add.s32 %r6, %r2, %r5;
  ld.shared.f32 %f1, [%r6];
  ld.global.f32 %f2, [%rd4];
  fma.rn.f32 %f3, %f1, %f2, %f2;
  and.b32 %r7, %r1, 15;
  shl.b32 %r7, %r7, 2;
  cvt.u64.u32 %rd5, %r7;
  mov.u64 %rd6, scratch;
  add.s64 %rd7, %rd6, %rd5;
  st.local.f32 [%rd7], %f3;
  ld.local.f32 %f4, [%rd7];
  bar.sync 0;
  st.shared.f32 [%r6], %f4;
  setp.lt.u32 %p1, %r1, 7;
  @%p1 bra SMALL;
  red.global.add.u32 [%rd2], 1;
  bra.uni END;
SMALL:
  atom.global.add.u32 %r8, [%rd2], 2;
END:
  st.global.f32 [%rd4], %f4;
  ret;
}
)";

struct CountedLaunch {
  LaunchReport report{};
  CardCall call{};  // as it would be told of a card, without counters
};

inline CountedLaunch launch_and_count() {
  const ReportFile file;
  setenv("VGPU_REPORT", file.path().c_str(), 1);
  setenv("VGPU_DEVICE", "l4", 1);
  CountedLaunch made;
  const auto library = runtime::virtual_driver_library();
  EXPECT_TRUE(library) << library.error().to_string();
  if (!library) return made;
  const auto driver = runtime::Driver::open(*library);
  EXPECT_TRUE(driver) << driver.error().to_string();
  if (!driver) return made;
  const auto context = runtime::Context::create(*driver);
  EXPECT_TRUE(context) << context.error().to_string();
  if (!context) return made;
  const auto module =
      runtime::Module::load(*context, std::as_bytes(std::span(everything_ptx, std::string(everything_ptx).size() + 1)));
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return made;
  const auto function = (*module)->function("everything");
  auto data = runtime::Buffer::create(*context, 4096), counter = runtime::Buffer::create(*context, 4);
  EXPECT_TRUE(function && data && counter);
  if (!function || !data || !counter) return made;
  EXPECT_TRUE(data->write(std::vector<std::byte>(4096)) && counter->write(std::vector<std::byte>(4)));
  // One CTA: its threads alone touch the data, so that the checks have nothing to say.
  const runtime::Geometry geometry{.grid = {1, 1, 1}, .block = {256, 1, 1}};
  std::uint64_t addresses[] = {data->address(), counter->address()};
  void* parameters[] = {&addresses[0], &addresses[1]};
  const auto launched = function->launch(geometry, parameters);
  EXPECT_TRUE(launched) << launched.error().to_string();
  const auto ended = (*context)->synchronize();
  EXPECT_TRUE(ended) << ended.error().to_string();
  for (LaunchReport& report : read_launches(file.path()))
    if (!report.kernel.empty()) made.report = std::move(report);
  EXPECT_EQ(made.report.kernel, "everything");

  const auto card = runtime::device_facts(**context);
  const auto facts = runtime::kernel_facts(*function, geometry);
  EXPECT_TRUE(card && facts);
  if (!card || !facts) return made;
  made.call = {.project = "p",
               .device = "cuda:0",
               .workload = "w",
               .card = *card,
               .why_nobody = {.message = "counters are locked", .fix = "ask for them"},
               .input_bytes = 4096,
               .output_bytes = 4096,
               .launches = {{.kernel = "everything", .block = {256, 1, 1}, .facts = *facts}}};
  return made;
}

// Once a process: a driver reads where its report goes when it is loaded.
inline CountedLaunch counted_launch() {
  static const CountedLaunch launch = launch_and_count();
  return launch;
}

}  // namespace flashmoe::workflow
