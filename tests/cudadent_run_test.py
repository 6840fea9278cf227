"""cudadent run: whose exit code counts, and what is said when nothing ran.

cudadent_run_test.py CUDADENT
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CUDADENT = Path(sys.argv[1]).resolve()

# A program on the driver API that needs nothing but Python's own ctypes.
LAUNCH = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, module, kernel, words = (ctypes.c_void_p() for _ in range(4))
text = b'''.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 to) {
  .reg .b64 %rd<2>; ld.param.u64 %rd1, [to]; st.global.u32 [%rd1+AT], 1; ret; }'''.replace(b"AT", OFFSET)
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), text) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"store") == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(words), ctypes.c_size_t(64)) == 0
parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(words), ctypes.c_void_p))
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0
cuda.cuCtxSynchronize()
"""


# Steps that the virtual GPU takes and no device executes: to meet after a branch, to negate a predicate, to pass what
# no lane of a warp takes part in.
PATHS = """.reg .pred %p<3>; .reg .b32 %r<2>; setp.eq.u64 %p1, %rd1, 0; @%p1 bra met; mov.b32 %r1, 1; met:
  @%p1 mov.b32 %r1, 2; selp.b32 %r1, 1, 2, %p1; not.pred %p2, %p1; and.pred %p2, !%p1, %p2; bar.warp.sync -1; """


# The same, twice between two events, each time told in nanoseconds: as a program's own benchmark does it.
BENCHMARK = LAUNCH.replace("OFFSET", 'b"0"').replace(
    "cuda.cuCtxSynchronize()",
    """
begin, end, elapsed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
for event in (begin, end):
    assert cuda.cuEventCreate(ctypes.byref(event), 0) == 0
for _ in range(2):
    assert cuda.cuEventRecord(begin, None) == 0
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0
    assert cuda.cuEventRecord(end, None) == 0
    assert cuda.cuEventElapsedTime(ctypes.byref(elapsed), begin, end) == 0
    print(elapsed.value * 1e6)
""",
)


def run(program: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CUDADENT, "run", "--device", "virtual:l4", *flags, "--", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, NO_COLOR="1", **environment),
        check=False,
    )


class ExitCodes(unittest.TestCase):
    def expect(self, program: str, code: int, outcome: str) -> str:
        shown = run(program)
        self.assertEqual(shown.returncode, code, shown.stderr)
        asked = run(program, "--json")
        self.assertEqual(asked.returncode, code, asked.stderr)
        answer = json.loads(asked.stdout)
        self.assertEqual(answer["outcome"], outcome)
        self.assertEqual(answer["exit_code"], code, "the process's, also in JSON")
        self.assertIn("cudadent run --device virtual:l4", answer["next"])
        self.assertEqual(len(answer["launches"]) == 0, outcome != "holds" and "cuLaunch" not in program)
        return shown.stderr

    def test_a_launch_without_a_finding_holds(self) -> None:
        self.assertIn("1 launch on virtual:l4", self.expect(LAUNCH.replace("OFFSET", 'b"0"'), 0, "holds"))

    def test_a_finding_is_a_failure(self) -> None:
        self.assertIn("memcheck", self.expect(LAUNCH.replace("OFFSET", 'b"64"'), 1, "findings"))

    def test_the_next_command_checks_the_same(self) -> None:
        told = json.loads(run(LAUNCH.replace("OFFSET", 'b"64"'), "--check", "memcheck", "--json").stdout)
        self.assertIn("cudadent run --device virtual:l4 --check memcheck -- ", told["next"])

    def test_no_launch_is_no_success(self) -> None:
        said = self.expect("pass", 3, "nothing ran")
        self.assertIn("NOTHING RAN", said)

    def test_refused_launches_are_not_forgotten_ones(self) -> None:
        ran = "assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0\n"
        asked = "cuda.cuLaunchKernel(kernel, 1, 1, 1, 2048, 1, 1, 0, None, parameters, None)\n"
        wide = LAUNCH.replace("OFFSET", 'b"0"').replace(ran, asked)
        shown = run(wide)
        self.assertEqual(shown.returncode, 3, shown.stderr)
        self.assertNotIn("NOTHING RAN", shown.stderr)
        self.assertIn("refused: launch of store refused: block 2048x1x1", shown.stderr)
        answer = json.loads(run(wide, "--json").stdout)
        self.assertEqual((answer["outcome"], answer["code"]), ("launches refused", "run.refused"))
        self.assertIn("block 2048x1x1", answer["refused"][0])
        # Beside one that ran it is told, and no more.
        both = wide + ran
        shown = run(both)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("refused: launch of store refused: block 2048x1x1", shown.stderr)

    def test_findings_come_before_the_programs_own_failure(self) -> None:
        self.expect("raise SystemExit(7)", 7, "program failed")
        self.assertEqual(json.loads(run("raise SystemExit(7)", "--json").stdout)["program_exit_code"], 7)
        wrong = LAUNCH.replace("OFFSET", 'b"64"') + "raise SystemExit(9)"
        self.expect(wrong, 1, "findings")
        told = json.loads(run(wrong, "--json=short").stdout)
        self.assertEqual((told["program_exit_code"], told["code"]), (9, "gpu.memcheck"))
        self.assertIn("write of 4 bytes", told["first_findings"][0]["what"])
        self.assertEqual(run(wrong, "--findings-exit", "99").returncode, 99)

    def test_findings_are_told_also_when_the_program_hides_them(self) -> None:
        hidden = "import os\nos.dup2(os.open(os.devnull, os.O_WRONLY), 2)\n" + LAUNCH.replace("OFFSET", 'b"64"')
        shown = run(hidden)
        self.assertEqual(shown.returncode, 1)
        self.assertIn("memcheck: ", shown.stderr)
        self.assertIn("write of 4 bytes", shown.stderr)

    def test_a_leak_counts_only_when_asked(self) -> None:
        leaks = LAUNCH.replace("OFFSET", 'b"0"') + "\nassert cuda.cuDevicePrimaryCtxReset_v2(0) == 0\n"
        shown = run(leaks)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("1 allocation, 64 bytes, never freed", shown.stderr)
        self.assertEqual(run(leaks, "--leaks").returncode, 1)

    def test_json_has_stdout_for_itself(self) -> None:
        asked = run("print('of the program')\n" + LAUNCH.replace("OFFSET", 'b"0"'), "--json")
        self.assertEqual(json.loads(asked.stdout)["outcome"], "holds")
        self.assertIn("of the program", asked.stderr)

    def test_what_cannot_be_checked_or_written_is_said_before_the_program_runs(self) -> None:
        for flags, code in (
            (("--check", "race"), 2),
            (("--report", "/nonexistent/report.jsonl"), 4),
            (("--sample", "few", "--check", "none"), 2),
            (("--sample", "5%"), 2),  # checks need every CTA
        ):
            shown = run("print('it ran')", *flags)
            self.assertEqual(shown.returncode, code, shown.stderr)
            self.assertNotIn("it ran", shown.stdout)
            self.assertIn(flags[1], shown.stderr)


class Counters(unittest.TestCase):
    """They cost more than the run: taken where somebody sees them."""

    def test_nobody_counts_what_nobody_sees(self) -> None:
        program = "import os, sys; print({**os.environ}.get('VGPU_COUNTERS', '1'), file=sys.stderr)"
        with tempfile.TemporaryDirectory() as folder:
            asks = ["--report", f"{folder}/report.jsonl"], ["--json"], ["--check", "none", "--sample", "8"]
            for flags, counts in ([], "0"), *((ask, "1") for ask in asks):
                self.assertEqual(run(program, *flags).stderr.splitlines()[0], counts, flags)

    def test_without_them_a_report_has_findings_and_instructions(self) -> None:
        for checks, offset in ("none", b"0"), ("all", b"0"), ("all", b"4194304"):
            with tempfile.TemporaryDirectory() as folder, self.subTest(checks=checks, offset=offset):
                report = Path(folder) / "report.jsonl"
                program, lines = LAUNCH.replace("OFFSET", repr(offset)).replace("st.global", PATHS + "st.global"), []
                for counters in "1", "0":
                    shown = run(program, "--check", checks, "--report", str(report), VGPU_COUNTERS=counters)
                    self.assertIn("1 launch on", shown.stderr, "the second run's own, behind the first's")
                    lines.append(json.loads(report.read_text().splitlines()[-1]))
                counted, plain = lines
                metrics = {one["name"]: one for one in counted["metrics"]}
                self.assertEqual(plain["metrics"], [metrics["vgpu__ptx_inst_executed.sum"]])
                for key in "kernel", "name", "device", "grid", "block":
                    self.assertEqual(plain[key], counted[key], key)
                causes = [[(one["check"], one["cause"]) for one in line["findings"]] for line in lines]
                self.assertEqual(causes, 2 * [[("memcheck", "access")] if offset != b"0" else []])


class Sample(unittest.TestCase):
    """Counters of some CTAs: scaled, labelled, and nothing that needs every CTA."""

    program = LAUNCH.replace("OFFSET", 'b"0"').replace("cuLaunchKernel(kernel, 1,", "cuLaunchKernel(kernel, 1000,")

    def launch(self, *flags: str) -> dict:
        asked = run(self.program, "--check", "none", "--json", *flags)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        return json.loads(asked.stdout)["launches"][0]

    def test_a_sample_counts_as_all_ctas_do(self) -> None:
        whole, some = (
            {one["name"]: one for one in self.launch(*flags)["metrics"]} for flags in ((), ("--sample", "2%"))
        )
        name = "vgpu__ptx_inst_executed.sum"
        self.assertEqual(whole[name]["trust"], "exact")
        self.assertEqual(some[name], {**whole[name], "trust": "sampled"})
        self.assertIn("vgpu__dram_bytes_written.sum", whole)
        self.assertNotIn("vgpu__dram_bytes_written.sum", some)

    def test_it_is_named(self) -> None:
        launch = self.launch("--sample", "8", "--seed", "3")
        self.assertEqual(
            {key: launch["sample"][key] for key in ("ctas", "of", "seed")}, {"ctas": 8, "of": 1000, "seed": 3}
        )
        self.assertIn("8 of 1000 CTAs, seed 3", launch["summary"])
        shown = run(self.program, "--check", "none", "--sample", "8")
        self.assertIn("counters are of a sample (8 of the CTAs)", shown.stderr)
        self.assertIn("--sample 8 --seed 1", shown.stderr)

    def test_the_driver_refuses_what_needs_every_cta(self) -> None:
        shown = run(self.program, "--check", "all", VGPU_SAMPLE="8")
        self.assertNotEqual(shown.returncode, 0)
        self.assertIn("VGPU_SAMPLE counts some CTAs", shown.stderr)


class Clock(unittest.TestCase):
    """What events tell: a lower bound, or a prediction, always with its label."""

    def nanoseconds(self, ran: subprocess.CompletedProcess[str]) -> list[float]:
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [float(line) for line in ran.stdout.split()]

    def test_the_default_is_a_lower_bound(self) -> None:
        ran = run(BENCHMARK, "--check", "none")
        self.assertLess(max(self.nanoseconds(ran)), 100)
        self.assertNotIn("predicted", ran.stderr)
        self.assertEqual(ran.stderr.count("event times are a lower bound"), 1, "said once, not for each event")

    def test_a_predicted_clock_tells_what_predict_says(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            report, cubin = Path(folder) / "report.jsonl", Path(folder) / "store.cubin"
            ran = run(BENCHMARK, "--check", "none", "--clock", "predicted", "--report", str(report))
            first = report.read_text().splitlines()[0]
            report.write_text(first + "\n")
            text = BENCHMARK.split("b'''")[1].split("'''")[0].replace("AT", "0")
            (Path(folder) / "store.ptx").write_text(text)
            subprocess.run(["ptxas", "-lineinfo", "-arch=sm_89", "-o", cubin, Path(folder) / "store.ptx"], check=True)
            words = ["--report", report, "--cubin", cubin, "--device", "virtual:l4", "--json"]
            asked = subprocess.run([CUDADENT, "predict", *words], capture_output=True, text=True, check=False)
            (launch,) = json.loads(asked.stdout)["launches"]
        self.assertTrue(launch["predicted"], asked.stdout)
        wanted = 1e3 * (launch["boost"]["us"] + launch["launch_us"]["stream"])
        for told in self.nanoseconds(ran):
            self.assertAlmostEqual(told, wanted, delta=1e-4 * wanted)
        self.assertEqual(ran.stderr.count("us predicted at boost"), 1, ran.stderr)
        self.assertIn("Nothing was measured", ran.stderr)
        self.assertIn("event times are predicted", ran.stderr)
        self.assertNotIn("event times are a lower bound", ran.stderr)

    def test_what_is_not_predicted_keeps_its_lower_bound_and_says_so(self) -> None:
        ran = run(BENCHMARK, "--check", "none", "--clock", "predicted", VGPU_PTXAS="off")
        self.assertLess(max(self.nanoseconds(ran)), 100)
        self.assertIn("store: not predicted: there is no ptxas", ran.stderr)

    def test_the_answer_and_the_next_command_name_the_clock(self) -> None:
        told = json.loads(run(LAUNCH.replace("OFFSET", 'b"0"'), "--clock", "predicted", "--json").stdout)
        self.assertEqual(told["clock"], "predicted")
        self.assertIn(" --clock predicted ", told["next"])
        self.assertEqual(run("pass", "--clock", "wall").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
