"""Answers that a script can act on: the JSON of every command against the printed schema, its exit code against the
process's, short ones measured in bytes, and kinds of problems provoked one by one.

    cudadent_answers_test.py CUDADENT ROOT [--virtual]     exit 0 when all hold

--virtual: also what needs nvcc and the virtual GPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema

MOST_SHORT_BYTES = 4096
NO_NVCC = {"CUDACXX": "/nowhere/nvcc"}
PROJECT = """name = "doubling"
kernel = "kernel.cpp:run"
reference = "reference.cpp:run"
baseline = "reference.cpp:run"
[params]
n = { default = 8 }
[inputs]
x = "f32[n]"
[outputs]
y = "f32[n]"
[workloads]
tiny = { n = 8 }
[correctness]
random_workloads = 0
hard_values = []
call_limit_seconds = 5
"""
TWIN = """[cuda]
sources = ["kernel.cu"]
[[cuda.instances]]
name = "twice"
grid = 1
block = 8
args = ["x", "y"]
"""
KERNEL = """#include <cudadent/kernel.h>
#include <cstdlib>
#include <new>
extern "C" int run(const cudadent_call* call) {
  const float* x = (const float*)call->tensors[0].data;
  float* y = (float*)call->tensors[1].data;
  BODY
  for (int i = 0; i < (int)call->tensors[0].shape[0]; ++i) y[i] = 2 * x[i];
  return 0;
}
"""
GATE = ["gate", "--until", "correctness", "--quiet"]

problems: list[str] = []


def expect(holds: bool, what: str) -> None:
    if not holds:
        problems.append(what)


class Bench:
    def __init__(self, cudadent: str, root: Path, directory: Path) -> None:
        self.cudadent = cudadent
        self.root = root
        self.directory = directory
        printed = subprocess.run([cudadent, "schema", "--answers"], check=True, capture_output=True, text=True)
        schema = json.loads(printed.stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)
        listed = subprocess.run([cudadent, "schema", "--codes", "--json"], check=True, capture_output=True, text=True)
        self.exit_of = {row["code"]: row["exit_code"] for row in json.loads(listed.stdout)["codes"]}
        self.seen: set[str] = set()

    def project(self, body: str = "", toml: str = PROJECT, name: str = "") -> Path:
        made = Path(tempfile.mkdtemp(dir=self.directory, suffix=name))
        (made / "cudadent.toml").write_text(toml)
        (made / "kernel.cpp").write_text(KERNEL.replace("BODY", body))
        (made / "reference.cpp").write_text(KERNEL.replace("BODY", ""))
        (made / "kernel.cu").write_text(
            'extern "C" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n'
        )
        return made

    def run(self, where: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.cudadent, *arguments],
            cwd=where,
            capture_output=True,
            text=True,
            timeout=500,
            env=os.environ | {"XDG_STATE_HOME": str(self.directory / "state")} | environment,
        )

    def ask(self, where: Path, *arguments: str, **environment: str) -> dict[str, Any]:
        """The whole answer; the short one is asked for, too, and held to the same."""
        answers = []
        for flag in ("--json=short", "--json"):
            line = [*arguments]
            line.insert(line.index("--") if "--" in line else len(line), flag)
            done = self.run(where, *line, **environment)
            try:
                answer = json.loads(done.stdout)
            except ValueError:
                expect(False, f"{line} answers no JSON: {done.stdout[:300]!r} {done.stderr[:300]!r}")
                return {"code": None, "exit_code": done.returncode}
            error = jsonschema.exceptions.best_match(self.validator.iter_errors(answer))
            expect(error is None, f"{line} is not as the schema says: {error and error.message[:600]}")
            expect(answer["exit_code"] == done.returncode, f"{line}: {answer['exit_code']}, exits {done.returncode}")
            size = len(done.stdout.encode())
            expect(flag == "--json" or size <= MOST_SHORT_BYTES, f"{line}: {size} bytes are not short")
            answers.append(answer)
        expect(answers[0]["code"] == answers[1]["code"], f"{arguments}: {answers[0]['code']}, {answers[1]['code']}")
        return answers[1]

    def provoke(self, code: str, where: Path, *arguments: str, **environment: str) -> dict[str, Any]:
        answer = self.ask(where, *arguments, **environment)
        expect(answer["code"] == code, f"{arguments} is {answer['code']}, not {code}: {json.dumps(answer)[:600]}")
        expect(answer["exit_code"] == self.exit_of.get(code), f"{code} exits with {answer['exit_code']}")
        self.seen.add(code)
        return answer


def the_command_line(bench: Bench) -> None:
    here = bench.project()
    empty = Path(tempfile.mkdtemp(dir=bench.directory))
    bench.provoke("usage.command_line", here, "gate", "--no-such-flag")
    bench.provoke("usage.device", here, "gate", "--device", "gpu")
    bench.provoke("usage.device", here, "advise", "--device", "cpu")
    bench.provoke("usage.device", here, "advise", FLASHMOE_DEVICE="cpu")
    bench.provoke("usage.device", here, "run", "--", "true", FLASHMOE_DEVICE="cpu")
    bench.provoke("usage.phase", here, "compare", "--phase", "none")
    bench.provoke("usage.version", here, "compare", "--base", "no-such-commit")
    bench.provoke("usage.record", here, "journal", "--show", "0123")
    bench.provoke("usage.record", here, "reproduce", "0123")
    bench.provoke("usage.run", here, "journal", "--summary", "no such run")
    bench.provoke("usage.shard", here, "optimize", "--workers", "horses")
    bench.provoke("usage.example", empty, "new", "--example", "soft_max")
    bench.provoke("usage.name", empty, "new", "my kernel")
    bench.provoke("usage.file_exists", here, "new")
    for command in ("gate", "profile", "compare"):
        answer = bench.provoke("project.not_found", empty, command)
        expect(answer["next"] == "cudadent new", f"{command} in an empty directory leads to {answer['next']}")


def a_file_with_mistakes(bench: Bench) -> None:
    broken = PROJECT.replace("call_limit_seconds = 5", "call_limit_second = 5").replace('"f32[n]"', '"f32[m]"', 1)
    here = bench.project(toml=broken.replace('kernel = "kernel.cpp:run"', 'kernel = "lost.cpp:run"'))
    answer = bench.ask(here, "gate")
    told = {error["key"]: (error["code"], error["line"]) for error in answer.get("errors", [])}
    wanted = {
        "kernel.call": ("project.file", 2),
        "inputs.x": ("project.value", 8),
        "correctness.call_limit_second": ("project.key", 16),
    }
    expect(told == wanted and answer["exit_code"] == 2, f"not all mistakes at once: {told}")
    expect(answer["next"] == "cudadent gate --json", f"after the edit the same again, not {answer['next']}")
    text = bench.run(here, "gate").stderr
    expect(all(f"cudadent.toml:{line}:" in text for _, line in wanted.values()), f"not all in text: {text}")
    bench.seen |= {code for code, _ in told.values()}
    bench.provoke("project.not_toml", bench.project(toml="name = = 1\n"), "status")


def a_kernel_that_does_not_hold(bench: Bench) -> None:
    for code, body in (
        ("correctness.wrong_result", "if (x) { y[0] = 1; for (int i = 1; i < 8; ++i) y[i] = 0; return 0; }"),
        ("kernel.crashed", "*(volatile int*)16 = 1;"),
        ("kernel.refused", "if (x) return 3;"),
        ("kernel.out_of_memory", "if (x) throw std::bad_alloc();"),
        ("kernel.hung", "for (volatile int on = 1; on;) {}"),
        ("build.compile_failed", "this is no C++"),
    ):
        toml = PROJECT.replace("call_limit_seconds = 5", "call_limit_seconds = 0.5") if "hung" in code else PROJECT
        here = bench.project(body, toml)
        answer = bench.provoke(code, here, *GATE, "--no-record")
        expect(answer["next"].startswith("cudadent gate "), f"{code} leads to {answer['next']}")
        if code == "kernel.crashed":
            told = json.dumps(answer["gates"])
            expect("SIGSEGV" in told and "address 0x10" in told, f"a crash says {told[:600]}")
            expect("kernel.cpp:7" in told or "in run" in told, f"a crash does not say where: {told[:600]}")


def a_profile_on_the_cpu(bench: Bench) -> None:
    """Named from counters or, where they may not be read, degraded; of a wrong kernel only what --debug shows."""
    here = bench.project()
    answer = bench.ask(here, "profile", "--quiet")
    degraded = "degraded" in answer["profile"]
    expect(answer["device"] == "cpu" and answer["profile"]["bottleneck"]["rule"], f"{json.dumps(answer)[:600]}")
    expect((answer["code"] == "profile.degraded") == degraded, f"{answer['code']}: {answer['profile']}")
    expect(answer["exit_code"] == (3 if degraded else 0), f"a profile exits with {answer['exit_code']}")
    records = bench.ask(here, "journal", "--kind", "profile")["records"]
    expect(records[-1]["id"] == answer["id"], f"the record is not there: {records}")
    expect(records[-1]["profile"]["bottleneck"] == answer["profile"]["bottleneck"], f"{records[-1]}")
    expect(records[-1]["evidence"]["kind"] == "measured", f"{records[-1]['evidence']}")
    wrong = bench.project("if (x) { y[0] = 1; for (int i = 1; i < 8; ++i) y[i] = 0; return 0; }")
    refused = bench.provoke("correctness.wrong_result", wrong, "profile", "--quiet", "--no-record")
    expect(refused["profile"]["bottleneck"] is None, f"named of a wrong kernel: {refused['profile']}")
    shown = bench.provoke("profile.no_evidence", wrong, "profile", "--debug", "--quiet")
    expect(shown["profile"]["bottleneck"] is not None, f"--debug names nothing: {shown['profile']}")
    expect(shown["evidence"]["kind"] == "none", f"--debug is evidence: {shown['evidence']}")


def what_could_not_run(bench: Bench) -> None:
    here = bench.project(toml=PROJECT + TWIN)
    twin = bench.ask(here, *GATE, "--no-record", **NO_NVCC)
    expect(twin["exit_code"] == 0, f"a CPU gate without nvcc: {json.dumps(twin)[:600]}")
    build = next(gate for gate in twin["gates"] if gate["gate"] == "build")
    expect("twin not checked" in build["summary"], f"without nvcc the build gate says {build['summary']}")
    expect(build["findings"][-1]["code"] == "build.twin_not_checked", f"{build['findings'][-1]}")
    bench.provoke("environment.no_nvcc", here, *GATE, "--no-record", "--device", "virtual:l4", **NO_NVCC)
    bench.provoke("environment.no_nvcc", here, "profile", **NO_NVCC)
    bench.provoke("environment.no_compiler", here, *GATE, "--no-record", CXX="/nowhere/g++")
    bench.provoke("environment.no_gpu", here, "gate", "--no-record", "--device", "cuda:0")
    judge = bench.project()
    (judge / "reference.cpp").write_text("this is no C++\n")
    bench.provoke("build.judge_failed", judge, *GATE, "--no-record")
    skipped = bench.ask(judge, *GATE, "--no-record", "--bisect")
    expect(skipped["exit_code"] == 125, f"bisect does not skip what could not run: {skipped['exit_code']}")
    bench.provoke("run.cannot_start", here, "run", "--", "/nowhere/program")
    # Records are not written through a symbolic link.
    (here / ".cudadent").mkdir(exist_ok=True)
    (here / ".cudadent" / "records.jsonl").symlink_to(here / "elsewhere")
    bench.provoke("record.not_written", here, *GATE, **NO_NVCC)
    bench.provoke("journal.unreadable", here, "journal")


def an_interrupted_gate(bench: Bench) -> None:
    """Nothing is decided, and process and JSON say so with one voice."""
    toml = PROJECT.replace("call_limit_seconds = 5", "call_limit_seconds = 300")
    here = bench.project("if (x) for (volatile int on = 1; on;) {}", toml)
    for arguments, code in (([], 3), (["--bisect"], 130)):
        process = subprocess.Popen(
            [bench.cudadent, "gate", "--json", "--no-record", *arguments],
            cwd=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "correctness" in line:
                break
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=200)
        answer = json.loads(output)
        bench.validator.validate(answer)
        told = (process.returncode, answer["exit_code"], answer["code"], answer["outcome"])
        expect(told == (code, code, "interrupted", "inconclusive"), f"an interrupted gate {arguments}: {told}")
    bench.seen.add("interrupted")


def looking_back(bench: Bench) -> None:
    here = bench.project()
    (here / ".gitignore").write_text(".cudadent\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], cwd=here, check=True)
    first = bench.ask(here, *GATE)
    expect(first["exit_code"] == 0 and first["next"] == "cudadent gate", f"{json.dumps(first)[:600]}")
    status = bench.ask(here, "status")
    expect(status["devices"][0]["outcome"] == "holds" and status["next"] == "cudadent gate", f"{status}")
    for arguments in (
        ["journal"],
        ["journal", "--runs"],
        ["journal", "--check"],
        ["journal", "--show", first["id"]],
        ["journal", "--summary", first["id"]],
        ["journal", "--keep", first["id"]],
        ["reproduce", first["id"], "--quiet"],
    ):
        answer = bench.ask(here, *arguments)
        expect(answer["exit_code"] == 0 and answer["code"] is None, f"{arguments}: {json.dumps(answer)[:600]}")
    records = bench.ask(here, "journal")["records"]
    bench.ask(here, "journal", "--compare", records[0]["id"], records[1]["id"])
    bench.provoke("usage.workload", here, "compare", "--workload", "none")
    (here / "kernel.cpp").write_text(KERNEL.replace("BODY", "if (x) return 3;"))
    bench.provoke("compare.candidate_failed", here, "compare", "--quiet")
    (here / "kernel.cpp").write_text(KERNEL.replace("BODY", "this is no C++"))
    bench.provoke("build.compile_failed", here, "compare", "--quiet")
    with (here / ".cudadent" / "records.jsonl").open("r+") as file:
        text = file.read().replace('"device":"cpu"', '"device":"gpu"', 1)
        file.seek(0)
        file.write(text)
    bench.provoke("journal.changed", here, "journal", "--check")


def journals_of_others(bench: Bench) -> None:
    here, there = bench.project(), bench.project()
    elsewhere = bench.project(toml=PROJECT.replace("doubling", "halving"))
    for project in (here, there, elsewhere):
        bench.ask(project, *GATE)
    merged = bench.ask(here, "journal", "merge", str(there))
    # Each of the two gate runs above is asked for twice, short and whole, and so is the merge.
    expect((merged["records"], merged["added"], merged["holds"]) == (4, 0, True), f"merge: {json.dumps(merged)[:600]}")
    bench.provoke("journal.not_merged", here, "journal", "merge", str(elsewhere))
    bench.provoke("journal.not_merged", here, "journal", "merge", "/nowhere")
    edited = there / ".cudadent" / "records.jsonl"
    edited.write_text(edited.read_text().replace('"device":"cpu"', '"device":"gpu"', 1))
    bench.provoke("journal.conflict", here, "journal", "merge", str(there))
    told = bench.ask(here, "journal", "export", "--as", "flashinfer-trace")
    expect(told["traces"] == [] and told["not_told"] == 4, f"nothing was timed: {json.dumps(told)[:600]}")
    trace = {
        "definition": "gemm",
        "workload": {"uuid": "u", "axes": {"m": 8}, "inputs": {"a": {"type": "random"}}},
        "solution": "fast",
        "evaluation": {
            "status": "PASSED",
            "environment": {"hardware": "NVIDIA_H100", "libs": {}},
            "timestamp": "2026-04-30T00:00:00Z",
            "log": "",
            "correctness": {"max_relative_error": 0.0, "max_absolute_error": 0.0},
            "performance": {"latency_ms": 0.5, "reference_latency_ms": 1.0, "speedup_factor": 2.0},
        },
    }
    (here / "traces.jsonl").write_text(json.dumps(trace) + "\n")
    taken = bench.ask(here, "journal", "import", "traces.jsonl")
    expect((taken["read"], taken["added"]) == (1, 0), f"a trace is taken once: {taken}")
    expect(bench.ask(here, "journal", "export")["traces"] == [trace], "a trace does not come back as it came")
    (here / "traces.jsonl").write_text(json.dumps(trace | {"definition": ""}) + "\n")
    bench.provoke("usage.trace", here, "journal", "import", "traces.jsonl")


def everything_else(bench: Bench) -> None:
    here = bench.project()
    for arguments in (
        ["doctor"],
        ["doctor", "--devices"],
        ["schema", "--codes"],
        ["completion", "bash"],
        ["selftest", "--quick", "--only", "simulation", "--quiet"],
    ):
        bench.ask(here, *arguments)
    for form in ("--json", "--json=short"):
        made = Path(tempfile.mkdtemp(dir=bench.directory))
        answer = json.loads(bench.run(made, "new", "mine", form).stdout)
        bench.validator.validate(answer)


def what_agents_are_told(bench: Bench) -> None:
    here = bench.project()
    told = bench.ask(here, "brief", "--device", "cpu")
    expect(told["next"] == "cudadent gate --device cpu" and told["bottleneck"] is None, f"{json.dumps(told)[:600]}")
    expect(told["moves"]["files"] == ["kernel.cpp"], f"these may not all be edited: {told['moves']}")
    bench.provoke("agents.other_version", here, "agents", "check")
    written = json.loads(bench.run(here, "agents", "init", "--json").stdout)
    bench.validator.validate(written)
    expect(all(file["written"] for file in written["files"]), f"not written: {written}")
    expect(bench.ask(here, "agents", "check")["exit_code"] == 0, "what was just written is of another version")
    (here / "SKILL.md").unlink()
    (here / "SKILL.md").symlink_to(here / "kernel.cpp")
    before = (here / "kernel.cpp").read_text()
    bench.provoke("agents.file_refused", here, "agents", "init")
    expect((here / "kernel.cpp").read_text() == before, "a link was followed")


def what_was_learned(bench: Bench) -> None:
    here = bench.project()
    expect(bench.ask(here, "patterns", "--learn")["trials"] == 0, "learned from nothing")
    (here / "wrong.json").write_text("{}")
    bench.provoke("patterns.unreadable", here, "patterns", "--import", "wrong.json")
    for name, kept in (("one", True), ("other", False)):
        trial = {"id": "0123456789ab", "evidence": "predicted", "rule": "grid", "move": "splits 1 -> 4", "kept": kept,
                 "lasted": kept, "gain": 2.0}
        digest = hashlib.sha256(json.dumps([trial], separators=(",", ":")).encode()).hexdigest()
        (here / f"{name}.json").write_text(json.dumps({"schema_version": 1, "sha256": digest, "trials": [trial]}))
    learned = bench.ask(here, "patterns", "--import", "one.json")["learned"]
    expect([row["trials"] for row in learned] == [1, 1], f"a trial counts twice: {learned}")
    bench.provoke("patterns.conflict", here, "patterns", "--import", "other.json")
    bench.run(here, "patterns", "--export", "again.json")
    there = bench.project()
    expect(bench.ask(there, "patterns", "--import", str(here / "again.json"))["trials"] == 1, "an export is lost")


def on_the_virtual_gpu(bench: Bench) -> None:
    naive = bench.root / "examples" / "attention_naive"
    copy = bench.directory / "attention_naive"
    shutil.copytree(naive, copy, ignore=shutil.ignore_patterns(".cudadent"))
    shutil.copytree(bench.root / "examples" / "cudadent", bench.directory / "cudadent")
    full = bench.run(copy, "profile", "--json", "--quiet").stdout
    expect(len(full) > 10 * MOST_SHORT_BYTES, f"the whole profile has only {len(full)} bytes")
    profiled = bench.ask(copy, "profile", "--quiet")
    expect(profiled["exit_code"] == 0 and profiled["device"] == "virtual:l4", f"{json.dumps(profiled)[:300]}")
    named = profiled["profile"]
    expect(named["counters"] == "exact" and named["bottleneck"]["rule"] == "grid", f"{json.dumps(named)[:600]}")
    expect(profiled["evidence"] == {"kind": "virtual", "where": "l4"}, f"{profiled['evidence']}")
    # The flag wins over the environment, which wins over the project.
    there = bench.ask(copy, "profile", "--quiet", FLASHMOE_DEVICE="virtual:h100")
    expect(there["device"] == "virtual:h100", f"FLASHMOE_DEVICE is not heard: {there['device']}")
    flag = bench.ask(copy, "profile", "--quiet", "--device", "virtual:a100", FLASHMOE_DEVICE="virtual:h100")
    expect(flag["device"] == "virtual:a100", f"--device is not heard: {flag['device']}")
    # Wrong comes before slow, and a source is no project.
    kernel = bench.directory / "cudadent" / "vector_add" / "kernel.cu"
    kernel.write_text(kernel.read_text().replace("if (i + 4 <= n) {", "if (true) {"))
    wrong = bench.provoke("gpu.memcheck", kernel.parent, "advise", "--quiet", "--device", "virtual:l4")
    expect(wrong["findings"][0]["where"].endswith("kernel.cu:8"), f"{json.dumps(wrong)[:600]}")
    source = bench.provoke("project.not_toml", kernel.parent, "advise", "kernel.cu")
    expect("is a source" in source["error"]["message"], f"{json.dumps(source)[:600]}")
    bench.provoke("run.nothing_ran", copy, "run", "--", "true")
    # The loader itself is loaded by nobody, so no driver can be put before it.
    bench.provoke("run.lacks", copy, "run", "--explain", "--", "/lib64/ld-linux-x86-64.so.2")
    failed = bench.ask(copy, "run", "--", "sh", "-c", "exit 7")
    expect(failed["exit_code"] == 7 and failed["code"] == "run.program_failed", f"{json.dumps(failed)[:300]}")


def codes_in_the_sources(bench: Bench) -> None:
    """Every code of the table is used by something that is neither the table nor a test."""
    text = ""
    for folder in ("src/workflow", "tools/cudadent"):
        for path in (bench.root / folder).rglob("*.[ch]pp"):
            if not path.stem.endswith("_test"):
                text += path.read_text(encoding="utf-8")
    table = (bench.root / "src/workflow/verdict/codes.def").read_text(encoding="utf-8")
    rows = re.findall(r"^CUDADENT_CODE\((\w+), \"([^\"]+)\"", table, re.MULTILINE)
    expect(len(rows) == len(bench.exit_of), f"{len(rows)} codes in the table, {len(bench.exit_of)} printed")
    for name, code in rows:
        expect(re.search(rf"\b{name}\b", text) is not None, f"nothing ever says {code}")
    used = set(re.findall(r"codes::(\w+)", text))
    expect(used <= {name for name, _ in rows} | {""}, f"no such codes: {used - {name for name, _ in rows}}")


def main() -> int:
    cudadent, root = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    parts: list[Callable[[Bench], None]] = [
        codes_in_the_sources,
        the_command_line,
        a_file_with_mistakes,
        a_kernel_that_does_not_hold,
        a_profile_on_the_cpu,
        what_could_not_run,
        an_interrupted_gate,
        looking_back,
        journals_of_others,
        everything_else,
        what_agents_are_told,
        what_was_learned,
    ]
    if "--virtual" in sys.argv:
        parts.append(on_the_virtual_gpu)
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(str(cudadent), root, Path(directory).resolve())
        for part in parts:
            part(bench)
        print(f"{len(bench.seen)} of {len(bench.exit_of)} codes provoked")
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
