"""A kernel under test in Python, over torch tensors: right, wrong, tunable, and as much watched as one in C++.

    cudadent_python_test.py CUDADENT     exit 0 when all hold; CUDADENT_PYTHON has torch
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = """
name = "row_softmax"
kernel = { call = "kernel.py:softmax", tensors = "torch" }
reference = "reference.py:softmax"
baseline = { call = "baseline.py:softmax", tensors = "torch" }

[params]
rows = { default = 16, range = [1, 40] }
cols = { default = 64, range = [1, 200] }

[inputs]
x = "bf16[rows, cols]"

[outputs]
y = "bf16[rows, cols]"

[tunables]
in_halves = { choices = [0, 1], default = 0, on = "cpu" }

[workloads]
tiny = { rows = 2, cols = 8 }
target = { rows = 64, cols = 256 }
"""
REFERENCE = """
import numpy as np

def softmax(tensors, params):
    assert tensors["x"].dtype == np.uint16 and "in_halves" not in params
    x = (tensors["x"].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}
"""
# The kernel writes in place; the baseline returns.
KERNEL = """
import torch
import helper

def softmax(tensors, params):
    x, y = tensors["x"], tensors["y"]
    assert x.dtype == y.dtype == torch.bfloat16
    parts = 2 if params["in_halves"] else 1
    for rows in torch.arange(x.shape[0]).tensor_split(parts):
        y[rows] = helper.softmax(x[rows])
"""
HELPER = "import torch\n\ndef softmax(x):\n    return torch.softmax(x.float(), dim=1).bfloat16()\n"
BASELINE = "import torch\n\ndef softmax(tensors, params):\n    return torch.softmax(tensors['x'], dim=1)\n"


def fail(what: str) -> None:
    print(f"FAILED: {what}")
    raise SystemExit(1)


class Project:
    def __init__(self, root: Path, cudadent: str) -> None:
        self.root, self.cudadent = root, cudadent
        self.write("cudadent.toml", PROJECT)
        self.write("reference.py", REFERENCE)
        self.write("kernel.py", KERNEL)
        self.write("helper.py", HELPER)
        self.write("baseline.py", BASELINE)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def gate(self, *, exit_code: int, says: str, until: str = "correctness") -> dict:
        command = [self.cudadent, "gate", str(self.root), "--until", until, "--json"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if run.returncode != exit_code or says not in run.stdout:
            fail(f"exit {run.returncode}, wanted {exit_code} and '{says}':\n{run.stdout[-3000:]}{run.stderr[-2000:]}")
        return json.loads(run.stdout)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder), sys.argv[1])
        project.gate(exit_code=0, says="nothing to compile")

        # The point reaches the kernel: only there is the helper handed fewer rows.
        limited = "\n    assert x.shape[0] <= 32, 'all rows at once'\n    return torch.softmax"
        project.write("helper.py", HELPER.replace("\n    return torch.softmax", limited))
        project.gate(exit_code=1, says="all rows at once")
        project.write("point.toml", "in_halves = 1\n")
        project.gate(exit_code=0, says="correctness")

        # Wrong at infinite inputs, as any kernel is that forgets the maximum.
        project.write("helper.py", HELPER.replace("torch.softmax(x.float(), dim=1)", "(x.exp()/x.exp().sum(1, True))"))
        project.gate(exit_code=1, says="y")

        # An input changed in place, and a module that is not there.
        project.write("helper.py", HELPER.replace("return", "x.zero_()\n    return"))
        project.write("kernel.py", KERNEL.replace("softmax(x[rows])", "softmax(x[rows.min() : rows.max() + 1])"))
        project.gate(exit_code=1, says="input")
        project.write("helper.py", "import no_such_module\n")
        project.gate(exit_code=4, says="no_such_module")
    print("a Python kernel over torch tensors: right, wrong, tunable, watched")
    return 0


if __name__ == "__main__":
    sys.exit(main())
