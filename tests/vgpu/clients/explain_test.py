"""cudadent run --explain: what a program needs and what of it is missing, without running it.

explain_test.py CUDADENT PROGRAM PROGRAM_WITH_STATIC_CUDART
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

CUDADENT, SHARED, STATIC = (str(Path(word).resolve()) for word in sys.argv[1:4])


def explained(program: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CUDADENT, "run", "--device", "virtual:l4", "--explain", *flags, "--", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, NO_COLOR="1"),
        check=False,
    )


def answer(program: str, exit_code: int) -> dict[str, Any]:
    done = explained(program, "--json")
    assert done.returncode == exit_code, (done.returncode, done.stdout, done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["exit_code"] == exit_code
    assert told["code"] == ("run.lacks" if exit_code else None), told["code"]
    return told


class Explain(unittest.TestCase):
    def test_a_shared_runtime_is_ours(self) -> None:
        told = answer(SHARED, 1)
        self.assertEqual(told["runtime"], "shared")
        libraries = {library["name"]: library for library in told["libraries"]}
        self.assertTrue(libraries["libcudart.so.13"]["is_ours"], libraries)
        self.assertEqual(told["kernels"], 2)
        [kernel] = told["cannot_run"]
        self.assertIn("triggers_an_event", kernel["kernel"])
        self.assertIn("pmevent", kernel["why"])
        self.assertEqual([lack["group"] for lack in told["missing"]], ["kernels"])

    def test_a_static_runtime_is_told_what_to_do(self) -> None:
        told = answer(STATIC, 1)
        self.assertEqual(told["runtime"], "static")
        [lack] = [lack for lack in told["missing"] if lack["group"] == "runtime"]
        self.assertIn("-cudart shared", lack["fix"])
        self.assertEqual(lack["where"], STATIC)

    def test_a_static_runtime_that_ran_nothing_is_told_so(self) -> None:
        done = subprocess.run(
            [CUDADENT, "run", "--device", "virtual:l4", "--", STATIC],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertIn("undocumented tables", done.stderr)
        self.assertIn("-cudart shared", done.stderr)

    def test_without_its_symbols_it_is_still_seen(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bare = os.path.join(folder, "bare")
            subprocess.run(["strip", "-o", bare, STATIC], check=True)
            self.assertEqual(answer(bare, 1)["runtime"], "static")

    def test_people_read_the_same_and_nothing_runs(self) -> None:
        done = explained(STATIC)
        self.assertEqual(done.returncode, 1)
        for words in ("runtime    static", "-cudart shared", "1 that can run, 1 that cannot", "pmevent"):
            self.assertIn(words, done.stdout)
        self.assertNotIn("it ran", done.stdout + done.stderr)

    def test_a_program_without_cuda_lacks_nothing(self) -> None:
        told = answer("true", 0)
        self.assertEqual((told["runtime"], told["kernels"], told["missing"]), ("none", 0, []))
        self.assertEqual(told["libraries"], [], "what is preloaded nobody asked for")
        self.assertEqual(told["environment"]["VGPU_DEVICE"], "l4")
        self.assertIn("libcudart.so.13", told["environment"]["LD_PRELOAD"])
        self.assertIn("cudadent run --device virtual:l4 -- true", told["next"])

    def test_a_library_that_is_not_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, library, program = (os.path.join(folder, name) for name in ("f.c", "libgone.so", "program"))
            Path(source).write_text("int f(void) { return 0; }\nint main(void) { return f(); }\n")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            linked = ["cc", "-o", program, source, "-Wl,--no-as-needed", f"-L{folder}", "-lgone"]
            subprocess.run(linked, check=True)
            os.remove(library)
            told = answer(program, 1)
        self.assertEqual([lack["what"] for lack in told["missing"]], ["libgone.so is not found"])

    def test_scripts_say_that_little_is_seen(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
            script.write("#!/bin/sh\nexit 0\n")
            script.flush()
            self.assertIn("script", " ".join(answer(script.name, 0)["notes"]))

    def test_no_such_program(self) -> None:
        done = explained("/nowhere/program", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["code"]), (4, "run.cannot_start"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
