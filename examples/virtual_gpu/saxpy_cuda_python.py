"""y = a x + y with NVIDIA's cuda-python: compiled by NVRTC, launched through the driver, as on a card.

    pip install cuda-python nvidia-cuda-nvrtc numpy
    cudadent run --device virtual:l4 -- python -m cudadent.examples.saxpy_cuda_python
"""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(arch=f"sm_{device.arch}", lineinfo=True)
kernel = Program(SOURCE, "c++", options=options).compile("ptx").get_kernel("saxpy")

n = 10_000
x, y = np.arange(n, dtype=np.float32), np.ones(n, dtype=np.float32)
on_device = [device.allocate(array.nbytes, stream=stream) for array in (x, y)]
for buffer, array in zip(on_device, (x, y), strict=True):
    driver.cuMemcpyHtoD(int(buffer.handle), array.ctypes.data, array.nbytes)
launch(stream, LaunchConfig(grid=(n + 255) // 256, block=256), kernel, np.float32(2), *on_device, np.int32(n))
stream.sync()
result = np.empty_like(y)
driver.cuMemcpyDtoH(result.ctypes.data, int(on_device[1].handle), result.nbytes)
np.testing.assert_array_equal(result, 2 * x + y)
print("saxpy of", n, "numbers is right, on", device.name)
