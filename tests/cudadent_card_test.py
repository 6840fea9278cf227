"""cudadent on a card, rehearsed: the way of `--device cuda:0` with the virtual driver and a stand-in NVML.

    cudadent_card_test.py CUDADENT EXAMPLES VGPU [night]

What is held: every command that times goes its whole way; every figure is marked rehearsal; none enters a record as
measured; a kernel that is wrong or cheats is refused there as elsewhere. `night`: further projects, compute-sanitizer's
stand-in, and compare, try and optimize, which take minutes; without it all else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CUDADENT, EXAMPLES, VGPU = (Path(argument).resolve() for argument in sys.argv[1:4])
DEVICE = "rehearsal:cuda:0"


def cudadent(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    # As somebody with a driver types it: that the driver is a virtual one is for the tool to find out.
    settings = {"NO_COLOR": "1", "FLASHMOE_DRIVER": str(VGPU / "libcuda.so.1"), **environment}
    return subprocess.run(
        [CUDADENT, *map(str, arguments)], capture_output=True, text=True, timeout=500, env={**os.environ, **settings},
        cwd=cwd, check=False,
    )  # fmt: skip


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


class Rehearsal(unittest.TestCase):
    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)

    def project(self, example: str) -> Path:
        # With what it reads around it.
        tree = Path(self.temporary.name) / "examples"
        if not tree.exists():
            tree.mkdir()
            (tree.parent / "src").symlink_to(EXAMPLES.parent / "src")
        for folder in ("cudadent", "attention_journey"):
            ignored = shutil.ignore_patterns(".cudadent", ".git")
            shutil.copytree(EXAMPLES / folder, tree / folder, ignore=ignored, dirs_exist_ok=True)
        shutil.rmtree(tree / example / ".cudadent", ignore_errors=True)
        return tree / example

    def committed(self, example: str) -> Path:
        path = self.project(example)
        git(path, "init", "-q")
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", "start")
        return path

    def records(self, project: Path) -> list[dict]:
        return json.loads(cudadent("journal", project, "--json").stdout)["records"]

    def assert_nothing_measured(self, project: Path) -> None:
        records = self.records(project)
        self.assertTrue(records)
        for record in records:
            self.assertEqual(record["device"], DEVICE, record)
            self.assertEqual(record["evidence"]["kind"], "rehearsal", record)
            self.assertIn("never run on a card", record["evidence"]["where"])
            self.assertNotIn(record["verdict"], ("KEEP", "REVERT", "holds"), record)

    def gate(self, project: Path, *flags: str, **environment: str) -> tuple[int, dict]:
        ran = cudadent("gate", project, "--device", "cuda:0", "--json", "--quiet", *flags, **environment)
        self.assertTrue(ran.stdout, ran.stderr)
        return ran.returncode, json.loads(ran.stdout)

    def hold_gates(self, *examples: str) -> None:
        for example in examples:
            with self.subTest(example):
                project = self.project(example)
                code, run = self.gate(project)
                gates = {gate["gate"]: gate for gate in run["gates"]}
                self.assertEqual(code, 3, run["summary"])
                self.assertEqual(run["device"], DEVICE)
                self.assertEqual(gates["correctness"]["outcome"], "holds", gates["correctness"])
                timed = gates["performance"]
                self.assertEqual(timed["code"], "performance.rehearsal", timed["summary"])
                self.assertIn("REHEARSAL, never run on a card", timed["summary"])
                speed = next(iter(timed["data"]["workloads"].values()))
                for figure in ("kernel_cold_seconds", "kernel_call_seconds", "baseline_call_seconds"):
                    self.assertGreater(speed["card"][figure], 0)
                self.assertGreater(speed["kernel_seconds"], 0)
                self.assert_nothing_measured(project)

    def hold_profiles(self, *examples: str) -> None:
        for example in examples:
            with self.subTest(example):
                project = self.project(example)
                ran = cudadent("profile", project, "--device", "cuda:0", "--json", "--quiet")
                self.assertEqual(ran.returncode, 3, ran.stderr + ran.stdout)
                profile = json.loads(ran.stdout)
                self.assertEqual(profile["device"], DEVICE)
                self.assertEqual(profile["code"], "profile.degraded")
                self.assert_nothing_measured(project)


class Card(Rehearsal):
    def test_gates_of_a_project(self) -> None:
        self.hold_gates("cudadent/softmax")

    def test_a_wrong_kernel_fails(self) -> None:
        project = self.project("cudadent/softmax")
        kernel = project / "kernel.cu"
        text = kernel.read_text()
        self.assertIn("expf", text)
        kernel.write_text(text.replace("expf", "1.001f * expf", 1))
        code, run = self.gate(project, "--until", "correctness")
        self.assertEqual(code, 1, run["summary"])

    def test_a_write_behind_an_output_is_seen(self) -> None:
        project = self.project("cudadent/vector_add")
        kernel = project / "kernel.cu"
        text = kernel.read_text()
        end = text.rindex("}")
        beyond = "  if (blockIdx.x == 0 && threadIdx.x < 4) c[n + threadIdx.x] = 7;\n"
        kernel.write_text(text[:end] + beyond + text[end:])
        code, run = self.gate(project, "--until", "correctness")
        self.assertEqual(code, 1, run["summary"])
        self.assertIn("wrote behind the end of 'c'", json.dumps(run["gates"]))

    def test_a_kernel_that_remembers_is_refused(self) -> None:
        # Device memory of a module outlives a call: the same input a second time costs nothing.
        project = self.project("cudadent/vector_add")
        (project / "kernel.cu").write_text("""
__device__ float kept[1 << 17];
__device__ unsigned long long of_what[1 << 10];
extern "C" __global__ void vector_add_kernel(const float* a, const float* b, float* c, long long n) {
  long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
  // Work that is skipped where the first numbers were seen before.
  unsigned long long key = ((unsigned long long)__float_as_uint(a[0]) << 32) | __float_as_uint(b[0]);
  unsigned slot = __float_as_uint(a[0]) % (1 << 10);
  bool seen = of_what[slot] == key;
  float waste = 0;
  if (!seen) for (int k = 0; k < 400; ++k) waste = waste * 0.5f + a[(i + k) % n];
  for (int j = 0; j < 4; ++j) if (i + j < n) c[i + j] = a[i + j] + b[i + j] + (waste == 1234567.0f ? 1.0f : 0.0f);
  if (i == 0 && !seen) of_what[slot] = key;
}
""")
        code, run = self.gate(project, "--only", "performance")
        self.assertEqual(code, 1, run["summary"])
        self.assertIn("remembers results", run["summary"])

    def test_a_kernel_that_puts_work_off_is_refused(self) -> None:
        # Honest until it has seen a block to its end; then it works for all calls in the one it takes for the last.
        project = self.project("cudadent/vector_add")
        (project / "kernel.cu").write_text("""
__device__ const float* all_a[4096];
__device__ const float* all_b[4096];
__device__ float* all_c[4096];
__device__ int length, at, blocks, done;
__device__ long long last_n;
extern "C" __global__ void vector_add_kernel(const float* a, const float* b, float* c, long long n) {
  __shared__ int first, past;
  if (threadIdx.x == 0) {
    if (n != last_n) { length = blocks = at = done = 0; last_n = n; }
    int part = length >= 4 ? length / 4 : 1;
    if (at > 0 && c == all_c[0]) {
      if (at == length) ++blocks;
      else if (blocks < 1 || at != part) { blocks = 0; length = at; }
      at = done = 0;
    }
    if (blocks >= 1 && (at >= length || all_c[at] != c)) blocks = 0;
    all_a[at] = a; all_b[at] = b; all_c[at] = c;
    if (++at > length) length = at;
    part = length >= 4 ? length / 4 : 1;
    first = past = 0;
    if (blocks < 1) { first = at - 1; past = done = at; }
    else if (at == part || at == length) { first = done; past = done = at; }
  }
  __syncthreads();
  for (int k = first; k < past; ++k)
    for (long long i = threadIdx.x; i < n; i += blockDim.x) all_c[k][i] = all_a[k][i] + all_b[k][i];
}
""")
        settings = project / "cudadent.toml"
        settings.write_text(settings.read_text().replace('"ceil_div(n, 4 * 256)"', '"1"'))
        code, run = self.gate(project, "--only", "performance")
        self.assertEqual(code, 1, run["summary"])
        self.assertIn("unwritten in a timed block", run["summary"])

    def test_profile(self) -> None:
        self.hold_profiles("cudadent/softmax")

    def test_a_card_that_is_held_back_or_shared_decides_nothing(self) -> None:
        for nvml, code in (("throttle=power", "throttled"), ("other_process=4242:1024", "somebody else")):
            with self.subTest(nvml):
                project = self.project("cudadent/softmax")
                _, run = self.gate(project, "--only", "performance", VGPU_NVML=nvml)
                told = json.dumps(run["gates"])
                self.assertIn(code, told)

    def test_what_is_missing_is_named(self) -> None:
        project = self.project("cudadent/softmax")
        nowhere = "/nowhere/libcuda.so.1"
        no_driver = cudadent("gate", project, "--device", "cuda:0", "--no-record", FLASHMOE_DRIVER=nowhere)
        self.assertEqual(no_driver.returncode, 4)
        self.assertIn("the CUDA driver does not load", no_driver.stdout + no_driver.stderr)
        second = cudadent("gate", project, "--device", "cuda:7", "--no-record")
        self.assertEqual(second.returncode, 4)
        self.assertIn("the driver sees 1 GPU", second.stdout + second.stderr)
        text = (project / "cudadent.toml").read_text()
        (project / "cudadent.toml").write_text(text.replace('torch_baseline = "torch_baseline.py:make_softmax"\n', ""))
        code, run = self.gate(project, "--only", "performance")
        self.assertEqual(code, 4)
        self.assertIn("no baseline of softmax runs on", run["summary"])


class Night(Rehearsal):
    def test_gates_of_further_projects(self) -> None:
        self.hold_gates("cudadent/matmul", "attention_journey")

    def test_profiles_of_further_projects(self) -> None:
        self.hold_profiles("cudadent/matmul", "attention_journey")

    def test_compute_sanitizer_is_asked(self) -> None:
        # A stand-in: it runs the program as the real one does, and finds what it is told to find.
        tool = Path(self.temporary.name) / "compute-sanitizer"
        tool.write_text("""#!/bin/sh
while [ "$1" != "${1#--}" ]; do
  [ "$1" = --tool ] && tool=$2
  [ "$1" = --error-exitcode ] && code=$2
  [ "$1" = --log-file ] && log=$2
  shift 2
done
"$@"
echo "========= Invalid __global__ read of size 4 bytes" > "$log"
[ "$tool" = "$FINDS" ] && exit "$code"
exit 0
""")
        tool.chmod(0o755)
        project = self.project("cudadent/softmax")
        only = ("--until", "correctness")
        code, run = self.gate(project, *only, CUDADENT_SANITIZER=str(tool))
        self.assertEqual(code, 0, run["summary"])
        self.assertIn("nothing found by compute-sanitizer (memcheck", json.dumps(run["gates"]))
        # Its environment is a short one, so the stand-in is told in its own text.
        tool.write_text(tool.read_text().replace("$FINDS", "racecheck"))
        code, run = self.gate(project, *only, CUDADENT_SANITIZER=str(tool))
        self.assertEqual(code, 1, run["summary"])
        self.assertIn("racecheck found something", run["summary"])
        self.assertIn("Invalid __global__ read", json.dumps(run["gates"]))

    def test_compare_try_and_optimize(self) -> None:
        project = self.committed("cudadent/softmax")
        kernel = project / "kernel.cu"
        same = cudadent("compare", project, "--device", "cuda:0", "--max-pairs", "6", "--json", "--quiet")
        answer = json.loads(same.stdout)
        self.assertEqual((same.returncode, answer["verdict"]), (3, "REHEARSAL"), same.stderr)
        self.assertEqual(answer["code"], "performance.rehearsal")

        kernel.write_text(kernel.read_text() + "\n// an edit that changes nothing but the file\n")
        tried = cudadent("try", project, "--device", "cuda:0", "--because", "nothing", "--json", "--quiet")
        self.assertEqual(tried.returncode, 3, tried.stderr + tried.stdout)
        self.assertEqual(json.loads(tried.stdout)["verdict"], "REHEARSAL")
        git(project, "checkout", "-q", "--", ".")
        self.assert_nothing_measured(project)

        matmul = self.committed("cudadent/matmul")
        best = cudadent("optimize", matmul, "--device", "cuda:0", "--iterations", "1", "--json", "--quiet")
        self.assertTrue(best.stdout, best.stderr)
        found = json.loads(best.stdout)
        self.assertEqual(found["device"], DEVICE, best.stderr)
        self.assertNotIn(best.returncode, (1, 2, 4), best.stdout)
        self.assert_nothing_measured(matmul)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Night if "night" in sys.argv[4:] else Card)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
