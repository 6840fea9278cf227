"""Memory: no matrix of scores."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

# The peak of the resident set during the call above what was resident before it, in a process of its own. The kernel's
# peak is reset, and what the allocator holds in reserve is given back, so that a call cannot hide in either.
PROGRAM = """
import ctypes, torch, flashmoe_science as fs
torch.set_num_threads(1)

def resident_bytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))

def softmax_path(q, k, v):
    return torch.softmax(q @ k.mT * 0.125, -1) @ v

def ours(q, k, v):
    return fs.attention(q, k, v)

with torch.no_grad():
    {name}(*(torch.randn(1, 8, 256, 64, dtype=torch.{dtype}) for _ in range(3)))  # libraries start up
    tensors = [torch.randn(1, 8, 4096, 64, dtype=torch.{dtype}) for _ in range(3)]
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before = resident_bytes("VmRSS:")
    result = {name}(*tensors)
    print(resident_bytes("VmHWM:") - before, result.nbytes)
"""


def extra_bytes(name: str, dtype: str) -> int:
    program = PROGRAM.format(name=name, dtype=dtype)
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    extra, result = map(int, output.split())
    assert extra > 0.9 * result, "the measurement did not even see the result"
    return extra


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_peak_extra_memory(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    materialised, ours = extra_bytes("softmax_path", dtype), extra_bytes("ours", dtype)
    saved = 1 - ours / materialised
    figures = f"{ours / 2**20:.1f} MiB, materialised {materialised / 2**20:.1f} MiB: {saved:.1%} less"
    with capsys.disabled():
        print(f"\n(1, 8, 4096, 64) {dtype}: {figures}")
    assert saved >= 0.95
