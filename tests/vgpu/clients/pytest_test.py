"""pytest --virtual-gpu: a suite on the virtual GPU, its findings as failures, its budget and its counters.

pytest_test.py CUDADENT      under a Python that has pytest
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CUDADENT = Path(sys.argv[1]).resolve()
PACKAGES = Path(__file__).resolve().parents[3] / "python"

# A suite on the driver API, as somebody has it: 64 threads that write, each its own word or all the same one.
SUITE = """
import ctypes
import time

import pytest

PTX = b'''.version 8.0
.target sm_80
.address_size 64
.file 1 "/src/store.cu"
.visible .entry store(.param .u64 to, .param .u32 step) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r2, [step];
  mov.u32 %r1, %tid.x;
  mul.lo.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  .loc 1 41 3
  st.global.u32 [%rd3], %r1;
  ret;
}'''


@pytest.fixture(scope="module")
def store():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, kernel, words = (ctypes.c_void_p() for _ in range(4))
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"store") == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(words), ctypes.c_size_t(256)) == 0

    def launch(step):
        number = ctypes.c_uint(step)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(words), ctypes.addressof(number))
        assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, values, None) == 0
        assert cuda.cuCtxSynchronize() == 0

    return launch


def test_fine(store):
    store(1)
    store(1)


def test_race(store):
    store(0)


def test_race_and_its_own_failure(store):
    store(0)
    assert False, "its own words"


@pytest.mark.xfail(strict=True)
def test_known_race(store):
    store(0)


def test_slow():
    time.sleep(60)


def test_without_gpu():
    pass
"""


def ran(*flags: str, suite: str = SUITE, cudadent: str = str(CUDADENT)) -> tuple[str, dict[str, str], int]:
    """What pytest printed, each test's outcome with its message, the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_suite.py").write_text(suite)
        paths = [str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "cudadent.pytest_plugin", "-p", "no:cacheprovider", *flags),
                *("--junitxml=result.xml", "--rootdir=.", "-c", os.devnull, "test_suite.py"),
            ],
            cwd=folder,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(paths), CUDADENT=cudadent, NO_COLOR="1"),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        outcomes = {}
        result = Path(folder, "result.xml")
        for case in ElementTree.parse(result).iter("testcase") if result.exists() else ():
            told = [child for child in case if child.tag in ("failure", "error", "skipped")]
            outcomes[case.attrib["name"]] = f"{told[0].tag}: {told[0].attrib['message']}" if told else "passed"
    return done.stdout + done.stderr, outcomes, done.returncode


class Suite(unittest.TestCase):
    def test_findings_are_failures_with_their_line(self) -> None:
        printed, outcomes, code = ran("--virtual-gpu", "l4", "--virtual-gpu-counters", "-k", "not slow")
        self.assertEqual(code, 1, printed)
        self.assertEqual(outcomes["test_fine"], "passed")
        self.assertEqual(outcomes["test_without_gpu"], "passed")
        self.assertRegex(outcomes["test_race"], r"failure: .*/src/store\.cu:41: racecheck: ")
        self.assertIn("its own words", outcomes["test_race_and_its_own_failure"])
        self.assertRegex(printed, r"virtual GPU[^\n]*\n/src/store\.cu:41: racecheck: ", "beside its own failure")
        self.assertRegex(outcomes["test_known_race"], "^skipped: ")
        self.assertIn("FAILED test_suite.py::test_race - ", printed)
        self.assertIn("5 launches in 4 tests; checks: all", printed)
        # Two launches of two warps, eight instructions each.
        self.assertIn("test_fine: 2 launches, 32 warp instructions, 0 bank conflicts", printed)

    def test_what_takes_too_long_fails(self) -> None:
        printed, outcomes, _ = ran("--virtual-gpu", "l4", "--virtual-gpu-seconds", "1", "-k", "slow")
        self.assertIn("over its budget of 1 s", outcomes["test_slow"], printed)

    def test_without_checks_there_are_no_findings(self) -> None:
        printed, outcomes, _ = ran("--virtual-gpu", "a100", "--virtual-gpu-check", "none", "-k", "race or fine")
        self.assertEqual(outcomes["test_race"], "passed", printed)
        self.assertIn("FAILED test_suite.py::test_known_race", printed, "strict: it was to fail")

    def test_nothing_launched_is_told(self) -> None:
        printed, _, code = ran("--virtual-gpu", "l4", "-k", "without_gpu")
        self.assertEqual(code, 0, printed)
        self.assertIn("no kernel was launched, so nothing was checked", printed)

    def test_operators_of_torch_are_computed_on_the_cpu_when_asked(self) -> None:
        suite = """
import torch

def test_sum():
    x = torch.ones(3, device="cuda") + 1
    assert x.is_cuda and x.sum().item() == 6
"""
        printed, outcomes, _ = ran("--virtual-gpu", "l4", "--virtual-gpu-aten", suite=suite)
        self.assertEqual(outcomes, {"test_sum": "passed"}, printed)
        self.assertIn("operators of torch on the CPU: aten::add.Tensor, aten::ones, aten::sum", printed)

    def test_the_plugin_alone_changes_nothing(self) -> None:
        printed, outcomes, code = ran("-k", "without_gpu")
        self.assertEqual((code, outcomes), (0, {"test_without_gpu": "passed"}))
        self.assertNotIn("virtual GPU", printed)

    def test_what_cannot_be_is_said(self) -> None:
        printed, _, code = ran("--virtual-gpu", "gtx9999")
        self.assertEqual(code, 4, printed)
        self.assertIn("gtx9999", printed)
        printed, _, code = ran("--virtual-gpu", "l4", cudadent="/nowhere/cudadent")
        self.assertEqual(code, 4, printed)
        self.assertIn("/nowhere/cudadent", printed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
