"""`cudadent optimize examples/attention_journey --device virtual:l4`, with nothing but its own rules and search, gets
from the first design to tensor cores: at most 20 iterations, 20 minutes, every step with its ground; and what it ends
with is predicted to take no longer than FlashInfer's and FlashAttention-2's kernels at S=128. Its report lacks nothing.

    cudadent_journey_test.py CUDADENT REPOSITORY     exit 0 when all hold
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cudadent_report_test import PRICES, check_journey
from cudadent_try_test import fail

DEVICE = ("--device", "virtual:l4")
MOST_MINUTES = 20
LEAST_FEWER = 10  # times fewer instructions on the busiest SM
LEAST_FASTER = 10  # times fewer cycles of a call, as predicted


def copy(repository: Path, to: Path) -> Path:
    for part in ("examples", "src/kernels"):
        shutil.copytree(repository / part, to / part, ignore=shutil.ignore_patterns(".cudadent"))
    with (to / "examples" / "attention_journey" / "cudadent.toml").open("a") as configuration:
        configuration.write(PRICES)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        subprocess.run(named, cwd=to, check=True, capture_output=True)
    return to / "examples" / "attention_journey"


def answer(cudadent: str, project: Path, *words: str) -> dict:
    ran = subprocess.run(
        [cudadent, *words, *DEVICE, "--json", "--quiet"], cwd=project, capture_output=True, text=True, timeout=2400
    )
    if ran.returncode != 0:
        fail(f"{words} ended with {ran.returncode}: {ran.stdout[:3000]}\n{ran.stderr}")
    return json.loads(ran.stdout)


def check_way(said: dict) -> None:
    for one in said["iterations"]:
        print(f"{one['number']:>3} {'+' if one['advanced'] else '-'} {one['hypothesis']}: {one['ground']}")
        if not one["hypothesis"] or not one["ground"]:
            fail(f"an iteration without hypothesis or ground: {one}")
        if one["rule"] and (one["predicted"] is None or one["seen"] is None):
            fail(f"a rule that foretells nothing: {one}")
    fewer = said["busiest_sm_at_start"] / said["busiest_sm_at_end"]
    print(f"{said['bottlenecks']}\n{fewer:.1f} times fewer instructions on the busiest SM, {said['seconds']:.0f} s")
    faster = said["predicted_at_start"] / said["predicted_at_end"]
    print(f"{said['predicted_at_end']:.0f} cycles predicted at the end, {faster:.1f} times fewer than at the start")
    if faster < LEAST_FASTER:
        fail(f"predicted to be {faster:.1f} times faster")
    if said["bottlenecks"][0] != "the grid is too small" or len(said["bottlenecks"]) < 3:
        fail(f"the bottlenecks are not those: {said['bottlenecks']}")
    if len(said["iterations"]) > 20 or said["seconds"] > 60 * MOST_MINUTES or fewer < LEAST_FEWER:
        fail(f"{len(said['iterations'])} iterations, {said['seconds']:.0f} s, {fewer:.1f} times fewer")
    if any(other["loses"] for other in said["elsewhere"]) or not said["elsewhere"]:
        fail(f"elsewhere it loses, or nobody looked: {said['elsewhere']}")


def check_end(cudadent: str, project: Path, end: str) -> None:
    subprocess.run(["git", "restore", "--source", end, "--", "."], cwd=project, check=True)
    if "mma = true" not in (project / "point.toml").read_text():
        fail("no tensor cores at the end")
    for launch in answer(cudadent, project, "profile")["launches"]:
        metrics = {one["name"]: one["value"] for one in launch["counters"]["metrics"]}
        conflicts = metrics.get("vgpu__shared_bank_conflicts.sum", 0)
        sectors = metrics.get("vgpu__coalescing_efficiency.pct", 100)
        spills = metrics.get("vgpu__local_bytes.sum", 0)
        print(f"{launch['kernel']}: {conflicts} conflicts, {sectors:.0f} % of the sectors needed, {spills} B spilled")
        if conflicts or sectors < 95 or spills:
            fail(f"conflicts, torn sectors or spills at the end: {conflicts} {sectors} {spills}")


def check_beside_the_peers(cudadent: str, repository: Path, project: Path) -> None:
    program = repository / "bench" / "peers" / "predicted.py"
    build = Path(cudadent).resolve().parents[1]
    ran = subprocess.run([sys.executable, program, "--build", build, "--journey", project, "--check"])
    if ran.returncode != 0:
        fail(f"bench/peers/predicted.py ended with {ran.returncode}")


def main() -> int:
    cudadent, repository = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        project = copy(Path(repository), Path(directory))
        said = answer(cudadent, project, "optimize", "--iterations", "20", "--seed", "1")
        check_way(said)
        ways = [(one["hypothesis"], one["advanced"]) for one in said["iterations"]]
        kept, left = ([way for way, advanced in ways if advanced == was] for was in (True, False))
        check_journey(cudadent, project, said["run"], kept, left, Path(directory) / "report")
        check_end(cudadent, project, said["end"])
        check_beside_the_peers(cudadent, Path(repository), project)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
