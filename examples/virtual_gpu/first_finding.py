"""A race for the virtual GPU to find, with nothing but Python: the driver by ctypes, the kernel as PTX.

    cudadent run --device virtual:l4 -- python -m cudadent.examples.first_finding

Each of 64 threads puts its number into shared memory and takes its opposite's; a `bar.sync 0;` is missing in between.
"""

import ctypes

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry reverse(.param .u64 out) {
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[256];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.u32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  sub.u32 %r4, %r3, %r2;
  ld.shared.u32 %r4, [%r4+252];
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r4;
  ret;
}
"""


def call(name: str, *arguments: object) -> None:
    code = getattr(CUDA, name)(*arguments)
    if code:
        raise SystemExit(f"{name} answered {code}")


CUDA = ctypes.CDLL("libcuda.so.1")
context, module, kernel, numbers = (ctypes.c_void_p() for _ in range(4))
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"reverse")
call("cuMemAlloc_v2", ctypes.byref(numbers), ctypes.c_size_t(256))
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(numbers))
call("cuLaunchKernel", kernel, 1, 1, 1, 64, 1, 1, 0, None, arguments, None)
call("cuCtxSynchronize")
result = (ctypes.c_uint32 * 64)()
call("cuMemcpyDtoH_v2", result, numbers, ctypes.c_size_t(256))
print("turned around" if list(result) == list(range(63, -1, -1)) else "not turned around", "this time")
