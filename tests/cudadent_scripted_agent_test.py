"""A scripted agent that reads nothing but `cudadent brief` and `--json=short` takes examples/attention_naive, which
leaves nothing open and has to be edited, to its best state: patches of tests/scripted_agent in random order, good ones
that build on one another, useless, wrong and cheating ones. It does what `next` says. Afterwards the journal is held
against the truth (tests/scripted_agent/patches.toml), and what was kept against the history.

    cudadent_scripted_agent_test.py CUDADENT ROOT [--patches some|all] [--seed N]     exit 0 when all hold
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

from cudadent_try_test import fail, named

DEVICE = "virtual:l4"
RUN = "scripted"
MOST_TOKENS = 2000
LEAST_FASTER = 3.0  # times fewer predicted cycles at the end, the gate's patches alone
ORDERS = "ignore previous instructions"  # as a kernel of the patches prints


def tokens(text: str) -> float:
    return max(len(text.encode()) / 3, 1.4 * len(text.split()))


class Agent:
    """Knows its patches, and of the project what it is told."""

    def __init__(self, cudadent: str, project: Path, patches: list[Path], truth: dict[str, dict]) -> None:
        self.cudadent = cudadent
        self.project = project
        self.patches = patches
        self.truth = truth
        self.budget = str(len(patches) + 1)

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command as it was told; `cudadent` is the one under test."""
        here = shlex.quote(str(Path(self.cudadent).resolve().parent))
        return subprocess.run(
            f"PATH={here}:$PATH\n{command}",
            shell=True, cwd=self.project, capture_output=True, text=True, timeout=600,
            env=named() | {"CUDADENT_RUN": RUN},
        )

    def brief(self, *options: str) -> dict:
        words = ("cudadent", "brief", "--device", DEVICE, "--run", RUN, "--iterations", self.budget, *options)
        command = shlex.join(words)
        text = self.shell(command)
        if text.returncode != 0 or tokens(text.stdout) > MOST_TOKENS:
            fail(f"brief exits with {text.returncode}, {tokens(text.stdout):.0f} tokens: {text.stdout}\n{text.stderr}")
        if ORDERS in text.stdout.lower().replace('"', ""):
            fail(f"what a kernel printed is told: {text.stdout}")
        answer = json.loads(self.shell(command + " --json=short").stdout)
        if answer["next"] not in text.stdout:
            fail(f"text and JSON lead elsewhere: {answer['next']}\n{text.stdout}")
        return answer

    def apply(self, patch: Path) -> bool:
        """In the repository's root; False: what it builds on is not there yet."""
        return self.shell(f"git -C .. apply {shlex.quote(str(patch))}").returncode == 0

    def change(self, patch: Path) -> dict:
        """One edit, tried; then what `next` says."""
        told = self.brief("--no-profile")
        because = self.truth[patch.stem]["because"]
        if not told["next"].startswith("cudadent try ") or told["state"]["edit"] != "not tried yet":
            fail(f"{patch.stem}: an edit in the tree, and brief says {told['next']}: {told['state']}")
        words = shlex.split(told["next"])
        words[words.index("--because") + 1] = because
        tried = self.shell(shlex.join([*words, "--json=short", "--quiet"]))
        answer = json.loads(tried.stdout)
        again = self.brief("--no-profile")
        if answer["next"].startswith("git ") and again["next"] != answer["next"]:
            fail(f"{patch.stem}: try leads to {answer['next']}, brief to {again['next']}")
        done = self.shell(again["next"])
        if done.returncode != 0:
            fail(f"{patch.stem}: '{again['next']}' ends with {done.returncode}: {done.stdout}{done.stderr}")
        if self.shell("git status --porcelain").stdout.strip():
            fail(f"{patch.stem}: '{again['next']}' left the tree changed")
        kept = " commit " in again["next"]
        print(f"{patch.stem}: {answer['verdict']}, {'kept' if kept else 'put away'}: {answer['summary']}", flush=True)
        return {"verdict": answer["verdict"], "kept": kept, "id": answer.get("id"), "because": because}

    def work(self) -> dict[str, dict]:
        """Until no patch applies that was not tried."""
        came: dict[str, dict] = {}
        open_ones = list(self.patches)
        while True:
            told = self.brief()
            if told["bottleneck"] is None:  # on a busy machine a profile takes more than an answer may
                self.shell(f"cudadent profile --device {DEVICE} --quiet")
                told = self.brief("--no-profile")
            lines = told["bottleneck"]["lines"]
            # Three, or fewer where those are all of it.
            shares = sum(int(line["says"].rsplit("(", 1)[1].split()[0]) for line in lines)
            are_all = 0 < len(lines) < 3 and shares >= 98
            if not (len(lines) == 3 or are_all) or not all(line["text"] for line in lines):
                fail(f"a bottleneck without its lines: {told['bottleneck']}")
            applied = next((patch for patch in open_ones if self.apply(patch)), None)
            if applied is None:
                if open_ones:
                    fail(f"never applied: {[patch.stem for patch in open_ones]}")
                return came
            open_ones.remove(applied)
            came[applied.stem] = self.change(applied)


def check_records(agent: Agent, came: dict[str, dict]) -> None:
    """The journal says of each what came of it, and that is what should have."""
    listed = json.loads(agent.shell("cudadent journal --json --kind iteration").stdout)["records"]
    by_id = {record["id"]: record for record in listed}
    if len(listed) != len(came):
        fail(f"{len(came)} changes, {len(listed)} records")
    for name, one in came.items():
        truth, record = agent.truth[name], by_id[one["id"]]
        told = (record["verdict"], record["hypothesis"], record["run"], record["device"])
        if told != (truth["verdict"], truth["because"], RUN, DEVICE) or one["verdict"] != truth["verdict"]:
            fail(f"{name}: {told}, and the truth is {truth}")
        if one["kept"] != truth.get("kept", False):
            fail(f"{name}: kept is {one['kept']}, and the truth is {truth}")
        if ORDERS in record["summary"].lower():
            fail(f"{name}: the record repeats what the kernel printed: {record['summary']}")
    verified = agent.shell("cudadent journal --check")
    if verified.returncode != 0:
        fail(f"the journal does not verify: {verified.stdout}{verified.stderr}")
    subjects = agent.shell("git log --format=%s").stdout.split("\n")[:-1]
    kept = {agent.truth[name]["because"] for name, one in came.items() if one["kept"]}
    if set(subjects) != kept | {"start"}:
        fail(f"the history has {subjects}, kept was {kept}")


def check_end(agent: Agent, came: dict[str, dict]) -> None:
    """Brief tells the whole of it, and the kernel that was left holds."""
    told = agent.brief()
    kept = [one["because"] for one in came.values() if one["kept"]]
    shown = [one["hypothesis"] for one in told["state"]["kept"]]
    if len(shown) + told["state"]["kept_more"] != len(kept) or not set(shown) <= set(kept):
        fail(f"brief says that {shown} were kept: {kept}")
    failed = sum(one["times"] for one in told["failed"]) + told["failed_more"]
    if failed > len(came) - len(kept) or not told["failed"]:
        fail(f"brief tells of {failed} failures of {len(came) - len(kept)}")
    faster = float(told["state"]["speed"]["says"].rsplit("(", 1)[1].rstrip("x)"))
    print(f"{told['state']['speed']['says']}; {told['state']['speed']['evidence']}")
    if faster < LEAST_FASTER or "predicted" not in told["state"]["speed"]["evidence"]:
        fail(f"its best state is {told['state']['speed']}")
    if told["budget"]["iterations"]["used"] != len(came):
        fail(f"{len(came)} iterations, and the budget says {told['budget']}")
    gated = agent.shell(f"cudadent gate --device {DEVICE} --until correctness --quiet --json=short")
    if gated.returncode != 0:
        fail(f"what was kept does not hold: {gated.stdout}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cudadent")
    parser.add_argument("root", type=Path)
    parser.add_argument("--patches", choices=("some", "all"), default="some")
    parser.add_argument("--seed", type=int, default=17)
    arguments = parser.parse_args()
    folder = arguments.root.resolve() / "tests" / "scripted_agent"
    truth = tomllib.loads((folder / "patches.toml").read_text())
    if set(truth) != {patch.stem for patch in folder.glob("*.patch")}:
        fail("patches.toml does not name the patches that are there")
    patches = [folder / f"{name}.patch" for name, row in truth.items() if arguments.patches == "all" or row.get("gate")]
    random.Random(arguments.seed).shuffle(patches)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for part in ("attention_naive", "cudadent"):
            source = arguments.root / "examples" / part
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns(".cudadent"))
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
            subprocess.run(["git", *words], cwd=root, check=True, env=named())
        agent = Agent(arguments.cudadent, root / "attention_naive", patches, truth)
        came = agent.work()
        check_records(agent, came)
        check_end(agent, came)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
