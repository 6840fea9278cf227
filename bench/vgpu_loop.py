"""A small kernel of our own on a CUDA driver, for benches of the virtual GPU where no nvcc and no peer is at hand.

vgpu_loop.py LIBRARY [--ctas N] [--steps N] [--repeat N]

Its loop has what an attention kernel's inner loop has: matrix products, exponentials, maxima, shuffles, conversions.
Prints what peers_host prints of time: {"seconds": of the first run, "repeat_seconds": [of each further run],
"repeat_processor_seconds": [the same, of all threads together]}.
"""

import argparse
import ctypes
import json
import time

WARPS = 4
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 steps)
{
  .reg .b32 %r<12>; .reg .f32 %f<12>; .reg .b64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r9, [steps];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %rd2, %r4, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.b32 %r5, 0x38003400;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
NEXT:
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r5, %r5, %r5, %r5}, {%r5, %r5},
    {%f1, %f2, %f3, %f4};
  max.ftz.f32 %f5, %f1, %f2;
  shfl.sync.bfly.b32 %r6, %r5, 2, 31, -1;
  sub.ftz.f32 %f6, %f3, %f5;
  ex2.approx.ftz.f32 %f7, %f6;
  mul.ftz.f32 %f8, %f7, 0f3F000000;
  cvt.rn.f16x2.f32 %r5, %f8, %f7;
  xor.b32 %r7, %r6, %r9;
  add.s32 %r9, %r9, -1;
  setp.ne.s32 %p, %r9, 0;
  @%p bra NEXT;
  st.global.f32 [%rd3], %f1;
  ret;
}
"""


class Driver:
    """The few calls of the driver API that it takes."""

    def __init__(self, library: str) -> None:
        self.calls = ctypes.CDLL(library)

    def __call__(self, name: str, *arguments: object) -> None:
        if status := getattr(self.calls, name)(*arguments):
            raise SystemExit(f"vgpu_loop: {name} answers {status}")


def run(driver: Driver, ctas: int, steps: int, repeat: int) -> list[tuple[float, float]]:
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    out = ctypes.c_uint64()
    driver("cuInit", 0)
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    driver("cuCtxSetCurrent", context)
    driver("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(ctas * WARPS * 32 * 4))
    parameters = (ctypes.c_void_p * 2)()
    count = ctypes.c_uint32(steps)
    parameters[0], parameters[1] = ctypes.addressof(out), ctypes.addressof(count)
    seconds = []
    for _ in range(1 + repeat):
        begin, processor_begin = time.monotonic(), time.process_time()
        if not module:
            driver("cuModuleLoadData", ctypes.byref(module), PTX)
            driver("cuModuleGetFunction", ctypes.byref(function), module, b"loop")
        driver("cuLaunchKernel", function, ctas, 1, 1, WARPS * 32, 1, 1, 0, None, parameters, None)
        driver("cuCtxSynchronize")
        seconds.append((time.monotonic() - begin, time.process_time() - processor_begin))
    driver("cuMemFree_v2", out)
    driver("cuDevicePrimaryCtxRelease_v2", 0)
    return seconds


def times_of(runs: list[tuple[float, float]]) -> str:
    first, *others = runs
    result = {"seconds": first[0], "repeat_seconds": [wall for wall, _ in others]}
    return json.dumps({**result, "repeat_processor_seconds": [processor for _, processor in others]})


def main() -> None:
    parser = argparse.ArgumentParser(description="runs a small kernel on a CUDA driver and prints its host time")
    parser.add_argument("library")
    parser.add_argument("--ctas", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=0)
    arguments = parser.parse_args()
    print(times_of(run(Driver(arguments.library), arguments.ctas, arguments.steps, arguments.repeat)))


if __name__ == "__main__":
    main()
