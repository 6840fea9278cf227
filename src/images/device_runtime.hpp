// What of libcudadevrt.a, which holds SASS alone, can be linked here: the grid's barrier for compilers that do not read
// cooperative_groups.h (numba-cuda). Declared in cuda_device_runtime_api.h.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace flashmoe {

[[nodiscard]] inline bool is_device_runtime(std::string_view library) {
  return library.ends_with("libcudadevrt.a");
}
// As nvcc links it into a program.
[[nodiscard]] bool holds_device_runtime(std::span<const std::byte> fatbin);

// A handle is the address of the launch's workspace (%envreg1 and 2; 0 unless the launch is cooperative), whose second
// word counts arrivals: the first block adds what the others leave of 2^31, so the top bit turns when all are there.
inline constexpr const char* device_runtime_ptx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .pred %is_grid;
  .reg .b32 %which, %high, %low;
  .reg .b64 %handle;
  ld.param.u32 %which, [scope];
  setp.eq.u32 %is_grid, %which, 1;
  mov.u32 %high, %envreg1;
  mov.u32 %low, %envreg2;
  mov.b64 %handle, {%low, %high};
  selp.b64 %handle, %handle, 0, %is_grid;
  st.param.b64 [result], %handle;
  ret;
}
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .pred %no_grid, %is_other, %waits;
  .reg .b32 %error, %x, %y, %z, %adds, %before, %now;
  .reg .b64 %workspace;
  ld.param.u64 %workspace, [handle];
  mov.u32 %error, 1;
  setp.eq.u64 %no_grid, %workspace, 0;
  @%no_grid bra done;
  barrier.sync 0;
  mov.u32 %x, %tid.x;
  mov.u32 %y, %tid.y;
  mov.u32 %z, %tid.z;
  or.b32 %x, %x, %y;
  or.b32 %x, %x, %z;
  setp.ne.u32 %is_other, %x, 0;
  @%is_other bra together;
  mov.u32 %x, %nctaid.x;
  mov.u32 %y, %nctaid.y;
  mov.u32 %z, %nctaid.z;
  mul.lo.u32 %x, %x, %y;
  mul.lo.u32 %x, %x, %z;
  sub.u32 %adds, 0x80000001, %x;
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ctaid.y;
  mov.u32 %z, %ctaid.z;
  or.b32 %x, %x, %y;
  or.b32 %x, %x, %z;
  setp.ne.u32 %is_other, %x, 0;
  selp.b32 %adds, 1, %adds, %is_other;
  atom.add.acq_rel.gpu.u32 %before, [%workspace+4], %adds;
again:
  ld.acquire.gpu.u32 %now, [%workspace+4];
  xor.b32 %now, %now, %before;
  setp.ge.s32 %waits, %now, 0;
  @%waits bra again;
together:
  barrier.sync 0;
  mov.u32 %error, 0;
done:
  st.param.b32 [result], %error;
  ret;
}
)";

}  // namespace flashmoe
