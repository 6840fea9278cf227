"""cudadent on the virtual GPU: the CUDA twins of the examples hold; broken variants are named with their line.

    cudadent_virtual_test.py CUDADENT EXAMPLES

Needs nvcc: a gate that cannot compile has failed, and so has this test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CUDADENT, EXAMPLES = (Path(argument).resolve() for argument in sys.argv[1:3])
DEVICE = "virtual:l4"
# What any client of the driver API asks first.
NAME_THE_DEVICE = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
name = ctypes.create_string_buffer(100)
assert driver.cuInit(0) == 0 and driver.cuDeviceGetName(name, 100, 0) == 0
print(name.value.decode())
"""
ONE_WARP = """
extern "C" __global__ void vector_add_kernel(const float* a, const float* b, float* c, long long n) {
#pragma unroll 1
  for (long long i = threadIdx.x; i < n; i += 32) c[i] = a[i] + b[i];
}
"""


def cudadent(*arguments: str, budget: int | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, NO_COLOR="1")
    if budget:
        environment["VGPU_BUDGET"] = str(budget)
    return subprocess.run(
        [CUDADENT, *arguments], capture_output=True, text=True, timeout=280, env=environment, check=False
    )


class Project:
    """A fresh copy of an example, with one line of its kernel changed. What was built of its files before stays."""

    def __init__(self, directory: Path, example: str, before: str = "", after: str = "") -> None:
        for kept in directory.rglob(".cudadent/*"):
            if kept.name != "build":
                shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
        for folder in ("cudadent", "attention_naive"):
            ignored = shutil.ignore_patterns(".cudadent")
            shutil.copytree(EXAMPLES / folder, directory / folder, ignore=ignored, dirs_exist_ok=True)
        self.path = directory / example
        kernel = self.path / "kernel.cu"
        text = kernel.read_text()
        self.line = 0
        if before:
            assert text.count(before) == 1, f"{before!r} stands {text.count(before)} times in {kernel}"
            self.line = text[: text.index(before)].count("\n") + 1
            kernel.write_text(text.replace(before, after))

    def gate(self, *flags: str, budget: int | None = None) -> tuple[int, dict]:
        ran = cudadent(
            "gate",
            str(self.path),
            "--device",
            DEVICE,
            "--seed",
            "7",
            "--no-record",
            "--json",
            "--quiet",
            *flags,
            budget=budget,
        )
        assert ran.stdout, ran.stderr
        return ran.returncode, json.loads(ran.stdout)

    def profile(self, *flags: str, device: str = DEVICE) -> tuple[int, str, str]:
        ran = cudadent("profile", str(self.path), "--device", device, "--seed", "7", "--quiet", *flags)
        return ran.returncode, ran.stdout, ran.stderr


def correctness(record: dict) -> dict:
    return next(gate for gate in record["gates"] if gate["gate"] == "correctness")


def errors(gate: dict) -> list[dict]:
    return [finding for finding in gate["findings"] if finding["severity"] == "error"]


class VirtualGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.directory = Path(scratch.name)

    def project(self, example: str, before: str = "", after: str = "") -> Project:
        return Project(self.directory, example, before, after)

    def test_the_naive_kernel_is_right_and_is_not_timed(self) -> None:
        code, record = self.project("attention_naive").gate()
        self.assertEqual(correctness(record)["outcome"], "holds", correctness(record)["summary"])
        self.assertEqual(len(correctness(record)["data"]["schedules"]), 3)
        self.assertIn("not timed", record["summary"])
        self.assertEqual(code, 3)
        # Without a clock the counters say what there is to say.
        profile = next(gate for gate in record["gates"] if gate["gate"] == "profile")
        self.assertEqual(profile["outcome"], "holds", profile["summary"])
        self.assertEqual(profile["data"]["counters"], "exact")
        self.assertEqual(profile["data"]["bottleneck"]["rule"], "grid")
        self.assertEqual(profile["data"]["counted"]["sms"], 58)
        self.assertIn("the grid is too small", record["summary"])
        self.assertEqual(record["code"], "performance.not_timed")

    def test_against_a_cuda_baseline_the_speed_is_predicted_and_no_verdict(self) -> None:
        project = self.project("cudadent/vector_add")
        slow = project.path.with_name("slow")
        shutil.copytree(project.path, slow)
        settings = project.path / "cudadent.toml"
        (slow / "cudadent.toml").write_text(
            settings.read_text().replace('"ceil_div(n, 4 * 256)"', "1").replace("block = 256", "block = 32")
        )
        (slow / "kernel.cu").write_text(ONE_WARP)
        # Of the larger one nothing is predicted: L2 decides.
        named = settings.read_text().replace('["kernel.cu"]', '["kernel.cu"]\nbaseline = "../slow"')
        settings.write_text(named + '\n[thresholds]\ntarget = "small"\n')
        code, record = project.gate("--only", "performance")
        gate = next(gate for gate in record["gates"] if gate["gate"] == "performance")
        self.assertEqual((code, gate["code"]), (3, "performance.predicted"), gate["summary"])
        self.assertIn("PREDICTED", gate["summary"])
        speed = gate["data"]["predicted"]
        self.assertGreater(speed["ratio"], 5)
        self.assertNotEqual(speed["baseline_sha256"], speed["kernel_sha256"])
        # One that is wrong is easily beaten; so is one that does something else.
        (slow / "kernel.cu").write_text(ONE_WARP.replace("+ b[i]", "- b[i]"))
        code, record = project.gate("--only", "performance")
        self.assertEqual((code, record["code"]), (4, "baseline.failed"), record["summary"])
        (slow / "cudadent.toml").write_text(settings.read_text().replace('c = "f32[n]"', 'c = "f32[2 * n]"'))
        code, record = project.gate("--only", "performance")
        self.assertEqual((code, record["code"]), (4, "baseline.failed"), record["summary"])

    def test_of_a_wrong_kernel_only_debug_names_the_bottleneck(self) -> None:
        project = self.project("cudadent/vector_add", "make_float4(x.x + y.x", "make_float4(x.x - y.x")
        code, text, problem = project.profile("--json", "--workload", "small")
        self.assertEqual(code, 1, problem)
        answer = json.loads(text)
        self.assertEqual(answer["code"], "correctness.wrong_result", answer["findings"])
        self.assertIsNone(answer["profile"]["bottleneck"])
        code, text, problem = project.profile("--json", "--workload", "small", "--debug")
        self.assertEqual(code, 3, problem)
        answer = json.loads(text)
        self.assertEqual(answer["code"], "profile.no_evidence")
        self.assertEqual(answer["evidence"]["kind"], "none")
        self.assertEqual(answer["profile"]["bottleneck"]["rule"], "grid")

    def test_twins_of_the_examples_are_right(self) -> None:
        self.project("cudadent/softmax")
        for example in ("vector_add", "softmax", "matmul"):
            with self.subTest(example):
                ran = cudadent(
                    "gate",
                    str(self.directory / "cudadent" / example),
                    "--device",
                    DEVICE,
                    "--until",
                    "correctness",
                    "--no-record",
                    "--quiet",
                )
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_starting_case(self) -> None:
        code, text, problem = self.project("attention_naive").profile("--json")
        self.assertEqual(code, 0, problem)
        launch = json.loads(text)["launches"][0]
        counters = launch["counters"]
        self.assertEqual(counters["grid"], [2, 1, 1])
        self.assertEqual(counters["sms"], 58)
        self.assertLessEqual(counters["waves"], 0.035)
        self.assertEqual(launch["advice"][0]["rule"], "grid")
        code, text, _ = self.project_again().profile()
        self.assertIn("the grid is too small: 2 CTAs on 58 SMs", text)
        self.assertIn("__syncthreads();", text, "the source stands beside its counts")

    def test_every_gpu_of_the_table_is_a_device(self) -> None:
        table = json.loads(cudadent("doctor", "--devices", "--json").stdout)["devices"]
        self.assertEqual({gpu["architecture"] for gpu in table}, {f"sm_{sm}" for sm in (80, 86, 89, 90, 100, 120)})
        guide = (EXAMPLES.parent / "docs" / "virtual-gpu.md").read_text()
        self.project("attention_naive")
        profiled = set()
        for gpu in table:
            with self.subTest(gpu["id"]):
                row = f"| `virtual:{gpu['id']}` | {gpu['name']} | {gpu['architecture']} |"
                self.assertTrue(row in guide, f"docs/virtual-gpu.md has no row {row}")
                ran = cudadent("run", "--device", f"virtual:{gpu['id']}", "--", sys.executable, "-c", NAME_THE_DEVICE)
                self.assertIn(f"{gpu['name']} (virtual)", ran.stdout, ran.stderr)
                if gpu["architecture"] in profiled:
                    continue
                profiled.add(gpu["architecture"])
                code, text, problem = self.project_again().profile("--json", device=f"virtual:{gpu['id']}")
                self.assertEqual(code, 0, problem)
                counters = json.loads(text)["launches"][0]["counters"]
                self.assertEqual(counters["sms"], gpu["sm_count"]["value"])
                self.assertEqual(counters["device"], gpu["id"])

    def project_again(self) -> Project:
        made = Project.__new__(Project)
        made.path = self.directory / "attention_naive"
        return made

    def finding(self, record: dict, check: str) -> dict:
        gate = correctness(record)
        self.assertEqual(gate["outcome"], "fails", gate["summary"])
        found = [finding for finding in errors(gate) if finding["group"] == check]
        self.assertTrue(found, f"no {check} among {errors(gate)}")
        self.assertTrue(found[0]["fix"], "a finding says what to do")
        return found[0]

    def test_arguments_that_the_kernel_does_not_take_are_named(self) -> None:
        # A driver would read beyond the list, or take other bytes than were meant.
        project = self.project("cudadent/vector_add")
        settings = project.path / "cudadent.toml"
        text = settings.read_text()
        cases = (
            ('"a", "b", "c"', "takes 4 arguments, and the project gives it 3"),
            ('"a", "b", "c", "i32 n"', "argument 4 of vector_add_kernel has 8 bytes"),
            ('"a", "b", "c", "i64 n", "i32 n"', "takes 4 arguments, and the project gives it 5"),
        )
        for args, wanted in cases:
            changed, count = re.subn(r"args = \[.*?\]", f"args = [{args}]", text)
            self.assertEqual(count, 1)
            settings.write_text(changed)
            with self.subTest(args=args):
                _, record = project.gate("--until", "correctness")
                told = json.dumps(record)
                self.assertIn(wanted, told)
                self.assertIn("8, 8, 8, 8 bytes", told)
                self.assertNotIn("SIGSEGV", told)

    def test_a_race_is_named_with_its_line(self) -> None:
        project = self.project("attention_naive", "    __syncthreads();\n    for (int j", "    for (int j")
        code, record = project.gate("--until", "correctness")
        self.assertEqual(code, 1)
        found = self.finding(record, "racecheck")
        self.assertIn("kernel.cu:", found["where"] + found["what"])

    def test_an_access_out_of_bounds_is_named_with_its_line(self) -> None:
        project = self.project("cudadent/vector_add", "if (i + 4 <= n)", "if (i < n)")
        code, record = project.gate("--until", "correctness")
        self.assertEqual(code, 1)
        found = self.finding(record, "memcheck")
        self.assertRegex(found["where"], rf"kernel\.cu:({project.line + 1}|{project.line + 2}|{project.line + 3})$")

    def hang(self, loop: str, budget: int | None = None) -> tuple[Project, dict]:
        project = self.project("cudadent/softmax", "  p = join_warp(p);\n  if", f"  {loop}\n  p = join_warp(p);\n  if")
        code, record = project.gate("--until", "correctness", budget=budget)
        self.assertEqual(code, 1)
        return project, correctness(record)

    def test_a_loop_that_never_ends_is_a_finding(self) -> None:
        project, gate = self.hang("while (cols > 0) __nanosleep(1);")
        found = self.finding({"gates": [gate]}, "synccheck")
        self.assertIn("a loop that never ends", found["what"])
        self.assertTrue(found["where"].endswith(f"kernel.cu:{project.line}"), found["where"])
        self.assertIn("softmax_kernel<", found["what"], "the kernel has its name, not its symbol")

    def test_a_kernel_that_waits_for_nobody_is_told_what_it_polls(self) -> None:
        project, gate = self.hang("while (((volatile const float*)x)[1] > -1e30f) {}")
        found = self.finding({"gates": [gate]}, "synccheck")
        self.assertIn("polls for a value that nobody writes", found["what"])
        self.assertIn("x + 4 bytes", found["what"], "the buffer has its name in the project")
        self.assertTrue(found["where"].endswith(f"kernel.cu:{project.line}"), found["where"])

    def test_a_clock_leaves_a_hung_kernel_to_its_budget(self) -> None:
        project, gate = self.hang("while (clock64() > 0) __nanosleep(1);", budget=3_000_000)
        self.assertRegex(json.dumps(gate), r"(?i)time.?out|budget")
        self.assertIn(f"kernel.cu:{project.line}", json.dumps(gate))

    def test_idle_ctas_make_no_waves(self) -> None:
        project = self.project("cudadent/vector_add")
        toml = project.path / "cudadent.toml"
        settings, grids = re.subn(r"grid = .*", "grid = 1024", toml.read_text())
        self.assertEqual(grids, 1)
        toml.write_text(settings)
        kernel = project.path / "kernel.cu"
        kernel.write_text(
            """extern "C" __global__ void vector_add_kernel(const float* a, const float* b, float* c, long long n) {
  if (blockIdx.x > 1) return;
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 2 * blockDim.x) c[i] = a[i] + b[i];
}
"""
        )
        code, text, problem = project.profile("--json", "--workload", "small")
        self.assertEqual(code, 0, problem)
        launch = json.loads(text)["launches"][0]
        self.assertEqual(launch["share"], 1)
        self.assertEqual(launch["counters"]["working_ctas"], 2)
        self.assertEqual(launch["counters"]["working_sms"], 2)
        self.assertGreater(launch["counters"]["waves_of_grid"], 2)
        self.assertLess(launch["counters"]["waves"], 0.1)
        self.assertEqual(launch["advice"][0]["rule"], "grid")
        self.assertIn("2 of 1024 CTAs do work", launch["advice"][0]["says"])
        code, record = project.gate("--until", "correctness")
        warnings = [one["what"] for one in correctness(record)["findings"] if one["group"] == "waves"]
        self.assertEqual(len(warnings), 1, correctness(record))
        self.assertEqual(code, 0, "it is right all the same")

    def test_bank_conflicts_are_named_with_their_line(self) -> None:
        project = self.project("cudadent/matmul", "a_slice[depth][tile + 4]", "a_slice[depth][tile]")
        code, text, problem = project.profile("--json", "--workload", "small")
        self.assertEqual(code, 0, problem)
        advice = [one for one in json.loads(text)["launches"][0]["advice"] if one["rule"] == "bank conflicts"]
        self.assertTrue(advice, text[:2000])
        self.assertIn("kernel.cu:", advice[0]["where"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
