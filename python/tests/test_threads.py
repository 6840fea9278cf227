"""torch.set_num_threads is honoured, whichever library was loaded first, in every thread."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import threading
{imports}
q = torch.randn(1, 8, 512, 64)

def threads_used():
    fs.attention(q, q, q)
    return _C.last_run()["threads"]

def in_another_thread():
    answer = []
    thread = threading.Thread(target=lambda: answer.append(threads_used()))
    thread.start()
    thread.join()
    return answer[0]

for wanted in (1, 2, 1):
    torch.set_num_threads(wanted)
    assert threads_used() == wanted, (threads_used(), wanted)
torch.set_num_threads(1)
assert in_another_thread() == 1, in_another_thread()
with open("/proc/self/maps") as maps:
    runtimes = {{line.split()[-1] for line in maps if "libgomp" in line}}
assert len(runtimes) == 1, runtimes
"""

TORCH_FIRST = "import torch\nimport flashmoe_science as fs\nfrom flashmoe_science import _C"
OURS_FIRST = """
import os
os.environ["FLASHMOE_SCIENCE_NO_TORCH"] = "1"
import flashmoe_science as fs
from flashmoe_science import _C
import numpy
fs.attention(*[numpy.zeros((1, 8, 512, 64), "float32")] * 3)
import torch
from flashmoe_science import _torch
_torch.register()
"""


@pytest.mark.parametrize("imports", [TORCH_FIRST, OURS_FIRST], ids=["torch first", "ours first"])
def test_set_num_threads(imports: str) -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM.format(imports=imports)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
