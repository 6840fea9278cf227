"""What the worker does with torch on a card, with a stand-in for torch (tests/torch_stand_in): never run on a card.

    torch_on_card_test.py ROOT

The worker's script is the very text that cudadent embeds; it is spoken to as the controller speaks to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(sys.argv[1]).resolve()
SCRIPT = (ROOT / "src/workflow/runner/python_runner.cpp").read_text().split('R"PY(')[1].split(')PY"')[0]
BASELINE = """
import torch

def make_add(tensors, params):
    a, b, c = tensors["a"], tensors["b"], tensors["c"]
    return lambda: torch.add(a, b, out=c)
"""
ELEMENTS, SETS = 64, 3


class Worker:
    """The controller's side of the protocol (src/workflow/runner/worker.hpp)."""

    def __init__(self, directory: Path, card: str) -> None:
        self.inputs, self.outputs = os.memfd_create("inputs"), os.memfd_create("outputs")
        os.truncate(self.inputs, SETS * 2 * 4 * ELEMENTS)
        os.truncate(self.outputs, SETS * 4 * ELEMENTS)
        path = [str(ROOT / "tests" / "torch_stand_in"), str(Path(np.__file__).parents[1])]
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            pass_fds=(self.inputs, self.outputs), env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )  # fmt: skip
        source = directory / "baseline.py"
        source.write_text(BASELINE)
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        self.loaded = self.ask(
            cmd="load", library=str(source), entry="make_add", hash=digest, trusted=True, torch=True, card=card,
            seccomp=-1, touching_others="", processes="",
        )  # fmt: skip

    def ask(self, **request: object) -> dict:
        self.process.stdin.write(json.dumps({"n": 7, **request}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


class TorchOnCard(unittest.TestCase):
    def test_every_time_is_taken_and_every_result_arrives(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            worker = Worker(Path(directory), "cuda:0")
            self.addCleanup(worker.close)
            self.assertTrue(worker.loaded["ok"], worker.loaded)
            tensors = [
                dict(name=name, role=role, offset=offset, dtype=1, shape=[ELEMENTS], stride=[1], absent=False)
                for name, role, offset in (("a", "input", 0), ("b", "input", 4 * ELEMENTS), ("c", "output", 0))
            ]
            bound = worker.ask(
                cmd="bind", inputs_fd=worker.inputs, outputs_fd=worker.outputs, input_bytes=8 * ELEMENTS,
                output_bytes=4 * ELEMENTS, sets=SETS, threads=1, params={}, tensors=tensors,
            )  # fmt: skip
            self.assertTrue(bound["ok"], bound)
            for round_, timing in enumerate(("kernel", "cold", "call", "kernel")):
                values = np.random.default_rng(round_).standard_normal((SETS, 2, ELEMENTS)).astype(np.float32)
                os.pwrite(worker.inputs, values.tobytes(), 0)
                os.pwrite(worker.outputs, np.full((SETS, ELEMENTS), np.nan, np.float32).tobytes(), 0)
                block = {"first": 0, "count": SETS}
                self.assertTrue(worker.ask(cmd="prepare", **block)["ok"])
                ran = worker.ask(cmd="run", timing=timing, **block)
                self.assertTrue(ran["ok"], ran)
                self.assertGreater(ran["card_seconds"], 0)
                published = worker.ask(cmd="publish", **block)
                self.assertTrue(published["ok"], published)
                got = np.frombuffer(os.pread(worker.outputs, SETS * 4 * ELEMENTS, 0), np.float32)
                np.testing.assert_array_equal(got.reshape(SETS, ELEMENTS), values[:, 0] + values[:, 1], timing)

    def test_a_torch_without_a_card_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as plain:
            stand_in = ROOT / "tests" / "torch_stand_in" / "torch"
            copy = Path(plain) / "torch"
            copy.mkdir()
            for file in stand_in.glob("*.py"):
                (copy / file.name).write_text(file.read_text().replace("return True", "return False"))
            source = Path(directory) / "baseline.py"
            source.write_text(BASELINE)
            process = subprocess.run(
                [sys.executable, "-B", "-c", SCRIPT], text=True, capture_output=True, check=False,
                input=json.dumps({"n": 1, "cmd": "load", "library": str(source), "entry": "make_add", "hash": "",
                                  "trusted": True, "torch": True, "card": "cuda:0"}) + "\n",
                env={**os.environ, "PYTHONPATH": os.pathsep.join([plain, str(Path(np.__file__).parents[1])])},
            )  # fmt: skip
            answer = json.loads(process.stdout)
            self.assertFalse(answer["ok"])
            self.assertIn("cannot use the card", answer["error"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
