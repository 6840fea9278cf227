"""First light rehearsed: the whole of it, and every way in which it may be cut short.

    first_light_test.py CUDADENT EXAMPLES VGPU RULES whole|faults

In each case the bundle verifies, says rehearsal and nothing else, and the stop command has run exactly once.
`whole`: all steps, with a trace of every driver call, which RULES (tests/vgpu/driver_rules.py) holds against what
NVIDIA documents, and the faults that take longest. `faults`: a few steps, one fault at a time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

CUDADENT, EXAMPLES, VGPU, RULES = (Path(argument).resolve() for argument in sys.argv[1:5])
FEW = ("--steps", "times,profile")


class FirstLight(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)
        self.bundle = self.work / "bundle"
        self.stops = self.work / "stops"
        self.device = "cuda:0"

    def command(self, *flags: object) -> list[str]:
        stop = f"echo stopped >> {self.stops}"
        fixed = [
            "--device",
            self.device,
            "--quick",
            "--quiet",
            "--json",
            "--bundle",
            self.bundle,
            "--machine-stop",
            stop,
        ]
        return [str(part) for part in (CUDADENT, "first-light", *fixed, *flags)]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "FLASHMOE_DRIVER": str(VGPU / "libcuda.so.1"), **more}

    def run_light(self, *flags: object, **more: str) -> tuple[int, dict]:
        ran = subprocess.run(
            self.command(*flags), capture_output=True, text=True, timeout=900, env=self.environment(**more), check=False
        )
        self.assertTrue(ran.stdout, ran.stderr)
        return ran.returncode, json.loads(ran.stdout)

    def state_of(self, report: dict, step: str) -> dict:
        return next(one for one in report["steps"] if one["name"] == step)

    def assert_sound(self, stops: int = 1) -> dict:
        """The bundle verifies, nothing in it is measured, and the machine was stopped as often as it should."""
        verified = subprocess.run(
            [CUDADENT, "first-light", "--verify", self.bundle, "--json"], capture_output=True, text=True, check=False
        )
        self.assertEqual(verified.returncode, 0, verified.stdout)
        by_others = subprocess.run(
            ["sha256sum", "--quiet", "-c", "MANIFEST.sha256"], cwd=self.bundle, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        self.assertEqual(by_others.returncode, 0, by_others.stdout + by_others.stderr)
        results = json.loads((self.bundle / "results.json").read_text())
        if results["card"]:
            self.assertIs(results["rehearsal"], True)
            self.assertIn("never run on a card", results["label"])
        for line in results["times"]:
            self.assertIs(line.get("rehearsal", True), True, line)
        self.assertNotIn('"kind": "measured"', "".join(file.read_text() for file in self.bundle.glob("gate-*.json")))
        count = len(self.stops.read_text().splitlines()) if self.stops.exists() else 0
        self.assertEqual(count, stops, "the stop command runs exactly once")
        return results


class Whole(FirstLight):
    def test_all_steps(self) -> None:
        trace = self.work / "trace.jsonl"
        begin = time.monotonic()
        code, report = self.run_light("--price", "0.71", "--budget", "1", VGPU_TRACE=str(trace))
        seconds = time.monotonic() - begin
        self.assertEqual(code, 3, report)
        self.assertEqual(report["code"], "performance.rehearsal")
        for step in ("doctor", "checks", "matmul", "softmax", "attention", "times", "profile"):
            self.assertIn(self.state_of(report, step)["state"], ("done", "degraded"), self.state_of(report, step))
        self.assertGreater(report["dollars"], 0)
        self.assert_sound()
        self.assertLess(seconds, 600, "the goal of ten minutes")
        calls = trace.read_text().splitlines()
        self.assertGreater(len(calls), 1000)
        # A worker is killed when its session ends; what a process held the driver takes back, and no rule is broken.
        kept = [f"--kept={kind}" for kind in ("event", "memory", "module", "stream", "library", "primary context")]
        rules = subprocess.run([sys.executable, RULES, *kept, trace], capture_output=True, text=True, check=False)
        print(f"first light rehearsed in {seconds:.0f} s, {len(calls)} driver calls; {rules.stdout.strip()[-200:]}")
        self.assertEqual(rules.returncode, 0, rules.stdout[-3000:] + rules.stderr[-1000:])

    def test_an_older_driver(self) -> None:
        code, report = self.run_light(*FEW, VGPU_DRIVER_VERSION="12000")
        self.assertEqual(code, 3, report)
        self.assertEqual(self.state_of(report, "times")["state"], "done", self.state_of(report, "times"))
        self.assert_sound()

    def test_disk_full(self) -> None:
        disk = self.work / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=560k", "tmpfs", disk], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            self.skipTest("only root can make a small disk here")
        self.addCleanup(subprocess.run, ["umount", disk], check=False)
        self.bundle = disk / "bundle"
        _, report = self.run_light("--steps", "doctor,checks,times,profile")
        told = json.dumps(report)
        self.assertIn("No space left on device", told)
        self.assert_sound()

    def test_two_at_once_in_one_bundle(self) -> None:
        with subprocess.Popen(
            self.command("--steps", "checks"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=self.environment(),
        ) as first:  # fmt: skip
            while not (self.bundle / "card.json").exists() and first.poll() is None:
                time.sleep(0.05)
            code, second = self.run_light("--steps", "times", "--resume")
            self.assertEqual(code, 2, second)
            first.communicate(timeout=120)
        self.assert_sound()

    def test_locked_counters(self) -> None:
        _, report = self.run_light("--steps", "profile")
        profile = self.state_of(report, "profile")
        self.assertEqual(profile["state"], "degraded")
        self.assertIn("no counters", profile["why"])
        self.assert_sound()

    def test_no_torch(self) -> None:
        plain = self.work / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", plain], check=True)
        _, report = self.run_light("--steps", "times,peers", CUDADENT_PYTHON=str(plain / "bin" / "python"))
        peers = self.state_of(report, "peers")
        self.assertEqual(peers["state"], "left out", peers)
        self.assertIn("-m pip install --no-build-isolation .", peers["why"])
        self.assertEqual(self.state_of(report, "times")["state"], "done")
        self.assert_sound()

    def test_another_user_on_the_card(self) -> None:
        _, report = self.run_light("--steps", "times", VGPU_NVML="other_process=4242:1024")
        self.assertIn("somebody else uses the card", self.state_of(report, "times")["why"])
        self.assertEqual(self.state_of(report, "times")["state"], "degraded")
        self.assert_sound()

    def test_a_status_that_lies(self) -> None:
        started = self.work / "started"
        code, report = self.run_light(*FEW, "--machine-status", "exit 1", "--machine-start", f"echo 1 >> {started}")
        self.assertEqual(code, 3, report)
        self.assertEqual(len(started.read_text().splitlines()), 1)
        self.assertTrue(any("the card is believed" in note for note in report["notes"]), report["notes"])
        self.assert_sound()
        # And the other way round: it says yes, and there is no card.
        self.stops.unlink()
        self.bundle = self.work / "second"
        code, report = self.run_light(*FEW, "--machine-status", "true", FLASHMOE_DRIVER="/nowhere/libcuda.so.1")
        self.assertEqual((code, report["code"]), (4, "environment.no_gpu"), report)
        self.assert_sound()


class Faults(FirstLight):
    def test_nothing_is_wrong(self) -> None:
        code, report = self.run_light(*FEW)
        self.assertEqual(code, 3, report)
        results = self.assert_sound()
        self.assertTrue(results["times"])

    def test_a_step_that_simply_holds(self) -> None:
        # Where nothing is amiss the doctor's answer has no code.
        code, report = self.run_light("--steps", "doctor")
        self.assertIn(code, (0, 3), report)
        self.assertIn(self.state_of(report, "doctor")["state"], ("done", "degraded"), report)
        self.assert_sound()

    def test_preemption(self) -> None:
        with subprocess.Popen(
            self.command("--steps", "checks,times,profile"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=self.environment(),
        ) as running:  # fmt: skip
            while not (self.bundle / "card.json").exists() and running.poll() is None:
                time.sleep(0.05)
            time.sleep(0.5)
            running.send_signal(signal.SIGTERM)
            stdout, _ = running.communicate(timeout=60)
        report = json.loads(stdout)
        self.assertEqual(report["code"], "preempted", report["summary"])
        self.assert_sound(stops=0)
        code, resumed = self.run_light("--steps", "checks,times,profile", "--resume")
        self.assertEqual(code, 3, resumed)
        for step in ("checks", "times", "profile"):
            self.assertIn(self.state_of(resumed, step)["state"], ("done", "degraded"))
        self.assert_sound()
        self.assertGreater(resumed["seconds"], report["seconds"], "the first session was paid for, too")

    def test_what_was_rehearsed_is_not_taken_over_by_a_card(self) -> None:
        self.run_light("--steps", "times")
        state = self.bundle / "state.json"
        stored = json.loads(state.read_text())
        self.assertEqual(stored["device"], "rehearsal:cuda:0")
        state.write_text(json.dumps({**stored, "device": "cuda:0"}))
        code, report = self.run_light("--steps", "times", "--resume")
        self.assertEqual((code, report["code"]), (2, "usage.bundle"), report)
        self.assertIn("was begun on", json.dumps(report))

    def test_a_bundle_that_was_touched_does_not_verify(self) -> None:
        self.run_light("--steps", "times")
        manifest = self.bundle / "MANIFEST.sha256"
        whole = manifest.read_text()

        def problems() -> str:
            ran = subprocess.run(
                [CUDADENT, "first-light", "--verify", self.bundle, "--json"], capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            self.assertEqual(ran.returncode, 1, ran.stdout)
            answer = json.loads(ran.stdout)
            self.assertIs(answer["rehearsal"], True)
            return "; ".join(answer["problems"])

        times = self.bundle / "times.jsonl"
        kept = times.read_text()
        times.write_text(kept + "{}\n")
        self.assertIn("times.jsonl: changed", problems())
        times.unlink()
        manifest.write_text("".join(line for line in whole.splitlines(True) if "times.jsonl" not in line))
        self.assertIn("its file is not listed", problems())
        times.write_text(kept)
        manifest.write_text(whole)
        (self.bundle / "more").symlink_to("/etc/hostname")
        self.assertIn("more: not listed", problems())

    def test_a_driver_that_is_too_old(self) -> None:
        code, report = self.run_light(*FEW, VGPU_DRIVER_VERSION="11080")
        self.assertEqual(code, 4, report)
        self.assertIn("too old", report["summary"])
        self.assert_sound()

    def test_throttling(self) -> None:
        _, report = self.run_light("--steps", "times", VGPU_NVML="throttle=power")
        times = self.state_of(report, "times")
        self.assertEqual(times["state"], "degraded")
        self.assertIn("throttled", times["why"])
        self.assert_sound()

    def test_a_start_command_that_fails(self) -> None:
        start = "echo no quota >&2; exit 7"
        code, report = self.run_light(*FEW, "--machine-status", "exit 1", "--machine-start", start)
        self.assertEqual((code, report["code"]), (4, "machine.command"), report)
        self.assertIn("no quota", report["summary"])
        self.assert_sound()

    def refused(self, *flags: object) -> str:
        """What a request that is wrong is told; nothing was begun, so there is nothing to stop."""
        code, report = self.run_light(*flags)
        self.assertEqual(code, 2, report)
        return report["error"]["message"]

    def test_requests_that_are_wrong(self) -> None:
        for plan in ((), ("--plan",)):
            self.assertIn("without a price", self.refused("--budget", "1", *plan))
            self.assertIn("-1 is not a number above 0", self.refused("--price=-1", *plan))
            self.assertIn("nope", self.refused("--steps", "doctor,nope", *plan))
        self.device = "cpu"
        for plan in ((), ("--plan",)):
            self.assertIn("cpu is no card", self.refused(*plan))
        self.assertFalse(self.bundle.exists())
        self.assertFalse(self.stops.exists())

    def test_a_plan_that_the_budget_does_not_hold(self) -> None:
        plan = subprocess.run(
            self.command("--plan", "--price", "0.71", "--budget", "0.01"), capture_output=True, text=True, check=True
        )
        self.assertIn("only 51 s are allowed", plan.stdout)

    def test_resume_vouches_for_nothing_of_others(self) -> None:
        self.run_light("--steps", "times")
        listed = (self.bundle / "MANIFEST.sha256").read_bytes()
        # What the virtual driver began never goes on as a measurement of a card.
        code, report = self.run_light("--resume", FLASHMOE_DRIVER="/nowhere/libcuda.so.1")
        self.assertEqual(code, 2, report)
        self.assertIn("was begun on rehearsal:cuda:0, not on cuda:0", report["error"]["message"])
        times = self.bundle / "times.jsonl"
        times.write_text(times.read_text().replace("true", "false"))
        self.assertIn("times.jsonl: changed", self.refused("--resume"))
        self.assertEqual((self.bundle / "MANIFEST.sha256").read_bytes(), listed)

    def test_money_gone(self) -> None:
        code, report = self.run_light("--steps", "doctor,times,profile", "--price", "3600", "--budget", "6")
        self.assertEqual((code, report["code"]), (3, "machine.money"), report["summary"])
        self.assertTrue(any(step["state"] == "open" for step in report["steps"]), report["steps"])
        self.assertLess(report["dollars"], 9)
        self.assert_sound()


if __name__ == "__main__":
    chosen = {"whole": Whole, "faults": Faults}[sys.argv[5]]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(chosen)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
