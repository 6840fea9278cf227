"""cuda-python: cuda.bindings (driver, NVRTC, runtime) and cuda.core.    cuda_python_suite.py CASES"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from cases import Suite
from cuda.bindings import driver, nvrtc, runtime
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

sys.path.append(str(Path(__file__).resolve().parents[1]))
import cuda_core_client

SOURCE = 'extern "C" __global__ void twice(int* x) { x[threadIdx.x + blockIdx.x * blockDim.x] *= 2; }'
COUNT = 256


def checked(answer: tuple) -> object:
    code, *values = answer
    assert int(code) == 0, str(code)
    return values[0] if len(values) == 1 else values


def core() -> None:
    """What the gate's program does, without its planted fault."""
    device = Device()
    device.set_current()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    module = Program(cuda_core_client.SOURCE, code_type="c++", options=options).compile("ptx")
    cuda_core_client.run_saxpy(device, module)
    cuda_core_client.run_shared(device, module)


def nvrtc_and_driver() -> None:
    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))
    checked(driver.cuCtxSetCurrent(context))
    program = checked(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"twice.cu", 0, [], []))
    checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
    checked(nvrtc.nvrtcGetPTX(program, ptx))
    function = checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(ptx)), b"twice"))
    x = np.arange(COUNT, dtype=np.int32)
    address = checked(driver.cuMemAlloc(x.nbytes))
    checked(driver.cuMemcpyHtoD(address, x.ctypes.data, x.nbytes))
    argument = np.array([int(address)], dtype=np.uint64)
    pointers = np.array([argument.ctypes.data], dtype=np.uint64)
    checked(driver.cuLaunchKernel(function, 2, 1, 1, COUNT // 2, 1, 1, 0, 0, pointers.ctypes.data, 0))
    back = np.empty_like(x)
    checked(driver.cuMemcpyDtoH(back.ctypes.data, address, back.nbytes))
    assert np.array_equal(back, 2 * x)
    checked(driver.cuMemFree(address))


def runtime_memory() -> None:
    x = np.arange(100, dtype=np.float32)
    address = checked(runtime.cudaMalloc(x.nbytes))
    checked(runtime.cudaMemcpy(address, x.ctypes.data, x.nbytes, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice))
    back = np.empty_like(x)
    checked(runtime.cudaMemcpy(back.ctypes.data, address, x.nbytes, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert np.array_equal(back, x)
    checked(runtime.cudaFree(address))


def runtime_device() -> None:
    assert checked(runtime.cudaGetDeviceCount()) == 1
    facts = checked(runtime.cudaGetDeviceProperties(0))
    assert b"virtual" in facts.name and facts.major == 8


def core_graph() -> None:
    """cuda.core: work of a stream captured by its graph builder."""
    device = Device()
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    kernel = Program(SOURCE, code_type="c++", options=options).compile("ptx").get_kernel("twice")
    x = np.ones(COUNT, dtype=np.int32)
    address = int(checked(driver.cuMemAlloc(x.nbytes)))
    checked(driver.cuMemcpyHtoD(address, x.ctypes.data, x.nbytes))
    builder = device.create_graph_builder()
    builder.begin_building()
    for _ in range(3):
        launch(builder, LaunchConfig(grid=2, block=COUNT // 2), kernel, address)
    graph = builder.end_building().complete()
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    back = np.empty_like(x)
    checked(driver.cuMemcpyDtoH(back.ctypes.data, address, back.nbytes))
    assert (back == 64).all(), back[:4]
    checked(driver.cuMemFree(address))


suite = Suite(sys.argv[1])
for name, case in {
    "cuda.core: compile, launch, memory, streams, events": core,
    "cuda.core: a graph": core_graph,
    "cuda.bindings: NVRTC and the driver API": nvrtc_and_driver,
    "cuda.bindings: the runtime API, memory": runtime_memory,
    "cuda.bindings: the runtime API, the device": runtime_device,
}.items():
    suite.run(name, case)
