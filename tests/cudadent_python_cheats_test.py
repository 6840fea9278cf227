"""Python kernels that reach into the worker they share an interpreter with: each is refused, or gains nothing.

    cudadent_python_cheats_test.py CUDADENT     exit 0 when all hold; CUDADENT_PYTHON has numpy
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = """
name = "row_softmax"
kernel = "kernel.py:{entry}"
reference = "reference.py:softmax"
baseline = "baseline.py:softmax"

[params]
rows = {{ default = 16, range = [1, 40] }}
cols = {{ default = 64, range = [1, 200] }}

[inputs]
x = "f32[rows, cols]"

[outputs]
y = "f32[rows, cols]"

[workloads]
tiny = {{ rows = 2, cols = 8 }}
target = {{ rows = 256, cols = 512 }}
"""
HONEST = """
import numpy as np

def honest(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

def softmax(tensors, params):
    return {"y": honest(tensors["x"])}
"""
REFERENCE = HONEST.replace('tensors["x"]', 'tensors["x"].astype(np.float64)')
# As much work as four kernels, so that none is stopped for being slow before it is looked at.
BASELINE = HONEST.replace('return {"y"', 'for _ in range(3):\n        honest(tensors["x"])\n    return {"y"')

# What each puts behind the honest kernel, and under which entry it is called.
REFUSED = {
    "computes when the call is prepared": ("make_softmax", """
def make_softmax(tensors, params):
    y = honest(tensors["x"])
    return lambda: {"y": y}
"""),
    "computes in a thread, ahead of the call": ("softmax", """
import threading
known, seen, threads = {}, [], []

def watch():
    while True:
        for x in list(seen):
            known.setdefault(hash(x.tobytes()), honest(x))

def softmax(tensors, params):
    x = tensors["x"]
    if not threads:
        threads.append(threading.Thread(target=watch, daemon=True))
        threads[0].start()
    if not any(x is other for other in seen):
        seen.append(x)
    y = known.get(hash(x.tobytes()))
    return {"y": honest(x) if y is None else y}
"""),
    "remembers results by a part of the input": ("softmax", """
known = {}

def softmax(tensors, params):
    x = tensors["x"]
    key = x.shape, x.flat[0], x.flat[-1]
    if key not in known:
        known[key] = honest(x)
    return {"y": known[key]}
"""),
    "remembers results by the tensor": ("softmax", """
known = {}

def softmax(tensors, params):
    return {"y": known.setdefault(id(tensors), honest(tensors["x"]) if id(tensors) not in known else None)}
"""),
    "replaces the worker's methods, computes after the timing": ("softmax", """
import sys
Worker = sys.modules["__main__"].Worker
prepare, waiting = Worker.prepare, {}

def run(self, request):
    for index in range(request["first"], request["first"] + request["count"]):
        waiting[index] = self.handed[index]
    return {"ok": True, "seconds": 1e-6, "waits": 0}

def flush(self):
    for index, tensors in waiting.items():
        self.sets[index]["y"][...] = honest(tensors["x"])
    waiting.clear()

def later(self, request):
    flush(self)
    return {"ok": True}

def before(self, request):
    flush(self)
    return prepare(self, request)

Worker.run, Worker.publish, Worker.prepare = run, later, before
"""),
    "answers first, computes then": ("softmax", """
import json, os, sys
main, write, sent = sys.modules["__main__"], os.write, set()
run = main.Worker.run

def early(self, request):
    answer = {"ok": True, "seconds": 1e-6, "waits": 0, "n": request["n"]}
    write(main.answers, (json.dumps(answer) + "\\n").encode())
    sent.add(request["n"])
    return run(self, request)

def once(descriptor, data):
    if descriptor == main.answers and json.loads(data)["n"] in sent:
        return len(data)
    return write(descriptor, data)

main.Worker.run, os.write = early, once
"""),
    "computes the first and the last call of a block": ("softmax", """
import sys
Worker = sys.modules["__main__"].Worker
run = Worker.run

def some(self, request):
    if request["count"] < 3:
        return run(self, request)
    run(self, dict(request, count=1))
    return run(self, dict(request, first=request["first"] + request["count"] - 1, count=1))

Worker.run = some
"""),
    "takes the copy of the result away": ("softmax", """
np.copyto = lambda *arguments, **options: None
"""),
}
PAYS = {
    "replaces the clock": ("softmax", """
import time
time.perf_counter = lambda: 0.0
"""),
    "hands over a tensor that computes when it is read": ("softmax", """
class Lazy:
    def __init__(self, x):
        self.x, self.shape = x, x.shape

    def __array__(self, *arguments, **options):
        return honest(self.x)

def softmax(tensors, params):
    return {"y": Lazy(tensors["x"])}
"""),
}


def gate(cudadent: str, root: Path, entry: str, trick: str) -> tuple[int, dict]:
    root.mkdir()
    (root / "cudadent.toml").write_text(PROJECT.format(entry=entry))
    (root / "reference.py").write_text(REFERENCE)
    (root / "baseline.py").write_text(BASELINE)
    (root / "kernel.py").write_text(HONEST + trick)
    command = [cudadent, "gate", str(root), "--device", "cpu", "--until", "performance", "--json", "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return run.returncode, json.loads(run.stdout)


def target_ratio(said: dict) -> float | None:
    """None: it was not timed, or noise left it open."""
    for one in said["gates"]:
        if one["gate"] == "performance":
            return one.get("data", {}).get("workloads", {}).get("target", {}).get("ratio", {}).get("mean")
    return None


def main() -> int:
    cudadent = sys.argv[1]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number, (name, (entry, trick)) in enumerate(REFUSED.items()):
            code, said = gate(cudadent, root / f"refused{number}", entry, trick)
            refused = code == 1 and said["code"] in ("correctness.wrong_result", "kernel.refused")
            print(f"{'refused' if refused else 'PASSED'}: {name}: {said['summary'][:160]}", flush=True)
            failures += not refused
        for number, (name, (entry, trick)) in enumerate({"is honest": ("softmax", ""), **PAYS}.items()):
            code, said = gate(cudadent, root / f"pays{number}", entry, trick)
            ratio = target_ratio(said)
            # Four times the kernel's work; the copy of the result is the kernel's alone.
            believable = code in (0, 3) and (ratio is None or 1.5 < ratio < 6)
            word = "as fast as it is" if believable else "NOT BELIEVABLE"
            print(f"{word}: {name}: {said['summary'][:160]}", flush=True)
            failures += not believable
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
