"""A scripted agent that reads nothing but short answers takes examples/attention_naive, which leaves nothing open and
has to be edited, to its best state: patches of tests/scripted_agent in random order, good ones that build on one
another, useless, wrong and cheating ones. It does what `next` says. It comes through either door: a shell (`cudadent
brief`, `--json=short`), or `cudadent mcp` with the official client of the Python that runs this. Afterwards the journal
is held against the truth (tests/scripted_agent/patches.toml), and what was kept against the history.

    cudadent_scripted_agent_test.py CUDADENT ROOT --door shell|mcp [--in-gate] [--report DIR]    0: all hold
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from cudadent_report_test import PRICES, check_journey
from cudadent_try_test import fail, named

DEVICE = "virtual:l4"
RUN = "scripted"
MOST_TOKENS = 2000
LEAST_FASTER = 3.0  # times fewer predicted cycles after all good patches
LEAST_GAIN = 1.1  # of one that is kept: what a prediction has to promise
PLAN = "\n[thresholds]\nmax_iterations = 20\n"
ORDERS = "ignore previous instructions"  # as a kernel of the patches prints


def tokens(text: str) -> float:
    return max(len(text.encode()) / 3, 1.4 * len(text.split()))


def without_marks(said: Any) -> Any:
    """What stands between the marks of words of others, anywhere in an answer."""
    if isinstance(said, dict):
        return {key: without_marks(value) for key, value in said.items()}
    if isinstance(said, list):
        return [without_marks(value) for value in said]
    return said[1:-1] if isinstance(said, str) and said[:1] + said[-1:] == "«»" else said


class Shell:
    """A door: commands as they are told."""

    def __init__(self, cudadent: str, root: Path) -> None:
        self.root = root
        self.project = root / "attention_naive"
        self.binaries = Path(cudadent).resolve().parent

    def run(self, command: str, where: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`cudadent` is the one under test."""
        return subprocess.run(
            f"PATH={shlex.quote(str(self.binaries))}:$PATH\n{command}",
            shell=True, cwd=where or self.project, capture_output=True, text=True, timeout=600,
            env=named() | {"CUDADENT_RUN": RUN},
        )

    def brief(self, budget: int, *options: str) -> dict:
        words = ("cudadent", "brief", "--device", DEVICE, "--run", RUN, "--iterations", str(budget), *options)
        command = shlex.join(words)
        text = self.run(command)
        if text.returncode != 0 or tokens(text.stdout) > MOST_TOKENS:
            fail(f"brief exits with {text.returncode}, {tokens(text.stdout):.0f} tokens: {text.stdout}\n{text.stderr}")
        if ORDERS in text.stdout.lower().replace('"', ""):
            fail(f"what a kernel printed is told: {text.stdout}")
        answer = json.loads(self.run(command + " --json=short").stdout)
        if answer["next"] not in text.stdout:
            fail(f"text and JSON lead elsewhere: {answer['next']}\n{text.stdout}")
        return answer

    def profile(self) -> None:
        self.run(f"cudadent profile --device {DEVICE} --quiet")

    def attempt(self, budget: int, because: str) -> dict:
        """The edit, tried as brief says; its answer leads where brief leads."""
        told = self.brief(budget, "--no-profile")
        if not told["next"].startswith("cudadent try ") or told["state"]["edit"] != "not tried yet":
            fail(f"{because}: an edit in the tree, and brief says {told['next']}: {told['state']}")
        words = shlex.split(told["next"])
        words[words.index("--because") + 1] = because
        answer = json.loads(self.run(shlex.join([*words, "--json=short", "--quiet"])).stdout)
        again = self.brief(budget, "--no-profile")
        if answer["next"].startswith("git ") and again["next"] != answer["next"]:
            fail(f"{because}: try leads to {answer['next']}, brief to {again['next']}")
        return answer | {"next": again["next"]}

    def follow(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.run(command)


class Mcp(Shell):
    """A door: tools, called from a thread beside the client's; of the shell it has what edits and commits."""

    def __init__(self, cudadent: str, root: Path, client: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(cudadent, root)
        self.client = client
        self.loop = loop

    def call(self, tool: str, **arguments: Any) -> dict:
        of_all = {"project": self.project.name, "device": DEVICE}
        answer = asyncio.run_coroutine_threadsafe(self.client.finish(tool, **of_all, **arguments), self.loop).result()
        if answer["is_error"] or ORDERS in answer["text"].lower():
            fail(f"{tool} with {arguments}: {answer}")
        return without_marks(answer)

    def brief(self, budget: int, *_: str) -> dict:
        return self.call("brief", run=RUN, iterations=budget)

    def profile(self) -> None:
        self.call("profile")

    def attempt(self, budget: int, because: str) -> dict:
        answer = self.call("try", run=RUN, because=because)
        if not answer["next"].startswith("git "):
            answer["next"] = self.brief(budget)["next"]
        return answer

    def follow(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.run(command, self.root)  # its `next` is said from where the server is


class Agent:
    """Knows its patches, and of the project what it is told."""

    def __init__(self, door: Shell, patches: list[Path], truth: dict[str, dict]) -> None:
        self.door = door
        self.patches = patches
        self.truth = truth
        self.budget = len(patches) + 1

    def apply(self, patch: Path) -> bool:
        """In the repository's root; False: what it builds on is not there yet."""
        return self.door.run(f"git apply {shlex.quote(str(patch))}", self.door.root).returncode == 0

    def change(self, patch: Path) -> dict:
        """One edit, tried; then what `next` says."""
        because = self.truth[patch.stem]["because"]
        answer = self.door.attempt(self.budget, because)
        done = self.door.follow(answer["next"])
        if done.returncode != 0:
            fail(f"{patch.stem}: '{answer['next']}' ends with {done.returncode}: {done.stdout}{done.stderr}")
        if self.door.run("git status --porcelain").stdout.strip():
            fail(f"{patch.stem}: '{answer['next']}' left the tree changed")
        kept = " commit " in answer["next"]
        print(f"{patch.stem}: {answer['verdict']}, {'kept' if kept else 'put away'}: {answer['summary']}", flush=True)
        return {"verdict": answer["verdict"], "kept": kept, "id": answer.get("id"), "because": because}

    def work(self) -> dict[str, dict]:
        """Until no patch applies that was not tried."""
        came: dict[str, dict] = {}
        open_ones = list(self.patches)
        while True:
            told = self.door.brief(self.budget)
            if told["bottleneck"] is None:  # on a busy machine a profile takes more than an answer may
                self.door.profile()
                told = self.door.brief(self.budget, "--no-profile")
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
    listed = json.loads(agent.door.run("cudadent journal --json --kind iteration").stdout)["records"]
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
    summary = agent.door.run(f"cudadent journal --summary {RUN}").stdout
    for one in came.values():
        if (f"| {one['because']} | kept |" in summary) != one["kept"] or f"| {one['because']} | open |" in summary:
            fail(f"the summary has another fate of '{one['because']}':\n{summary}")
    verified = agent.door.run("cudadent journal --check")
    if verified.returncode != 0:
        fail(f"the journal does not verify: {verified.stdout}{verified.stderr}")
    subjects = agent.door.run("git log --format=%s").stdout.split("\n")[:-1]
    kept = {agent.truth[name]["because"] for name, one in came.items() if one["kept"]}
    if set(subjects) != kept | {"start"}:
        fail(f"the history has {subjects}, kept was {kept}")


def check_end(agent: Agent, came: dict[str, dict]) -> None:
    """Brief tells the whole of it, and the kernel that was left holds."""
    told = agent.door.brief(agent.budget)
    kept = [one["because"] for one in came.values() if one["kept"]]
    shown = [one["hypothesis"] for one in told["state"]["kept"]]
    if len(shown) + told["state"]["kept_more"] != len(kept) or not set(shown) <= set(kept):
        fail(f"brief says that {shown} were kept: {kept}")
    failed = sum(one["times"] for one in told["failed"]) + told["failed_more"]
    if failed > len(came) - len(kept) or not told["failed"]:
        fail(f"brief tells of {failed} failures of {len(came) - len(kept)}")
    faster = float(told["state"]["speed"]["says"].rsplit("(", 1)[1].rstrip("x)"))
    print(f"{told['state']['speed']['says']}; {told['state']['speed']['evidence']}")
    is_all = {name for name, row in agent.truth.items() if row.get("kept")} <= set(came)
    least = LEAST_FASTER if is_all else LEAST_GAIN ** len(kept)
    if faster < least or "predicted" not in told["state"]["speed"]["evidence"]:
        fail(f"its best state is {told['state']['speed']}")
    if told["budget"]["iterations"]["used"] != len(came):
        fail(f"{len(came)} iterations, and the budget says {told['budget']}")
    if not is_all:
        return  # what was kept was held to be right when it was tried
    gated = agent.door.run(f"cudadent gate --device {DEVICE} --until correctness --quiet --json=short")
    if gated.returncode != 0:
        fail(f"what was kept does not hold: {gated.stdout}")


def journey(door: Shell, patches: list[Path], truth: dict[str, dict], out: Path | None) -> None:
    agent = Agent(door, patches, truth)
    came = agent.work()
    check_records(agent, came)
    check_end(agent, came)
    if out:
        kept, left = ([one["because"] for one in came.values() if one["kept"] == was] for was in (True, False))
        check_journey(str(door.binaries / "cudadent"), door.project, RUN, kept, left, out)


async def through_mcp(cudadent: str, root: Path, *of_agent: Any) -> None:
    from cudadent_mcp_test import Agent as Client  # wants the client's package

    async with Client.connect(cudadent, root) as client:
        await asyncio.to_thread(journey, Mcp(cudadent, root, client, asyncio.get_running_loop()), *of_agent)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cudadent")
    parser.add_argument("root", type=Path)
    parser.add_argument("--door", choices=("shell", "mcp"), required=True)
    parser.add_argument("--in-gate", action="store_true", help="only the patches that every gate tries")
    parser.add_argument("--report", type=Path, help="the run's report is checked, and left in this directory")
    parser.add_argument("--seed", type=int, default=17)
    arguments = parser.parse_args()
    folder = arguments.root.resolve() / "tests" / "scripted_agent"
    truth = tomllib.loads((folder / "patches.toml").read_text())
    if set(truth) != {patch.stem for patch in folder.glob("*.patch")}:
        fail("patches.toml does not name the patches that are there")
    chosen = [name for name, row in truth.items() if row.get("in_gate") or not arguments.in_gate]
    patches = [folder / f"{name}.patch" for name in chosen]
    random.Random(arguments.seed).shuffle(patches)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for part in ("attention_naive", "cudadent"):
            source = arguments.root / "examples" / part
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns(".cudadent"))
        with (root / "attention_naive" / "cudadent.toml").open("a") as configuration:
            configuration.write(PRICES + PLAN)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
            subprocess.run(["git", *words], cwd=root, check=True, env=named())
        of_agent = (patches, truth, arguments.report)
        if arguments.door == "mcp":
            asyncio.run(through_mcp(arguments.cudadent, root, *of_agent))
        else:
            journey(Shell(arguments.cudadent, root), *of_agent)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
