"""A run that several processes share decides what one process decides.

    cudadent_shards_test.py CUDADENT EXAMPLE                 two shards in clones of their own, journals merged
    cudadent_shards_test.py CUDADENT EXAMPLE --ray PYTHON    two Ray workers, one killed in mid-run; PYTHON has ray

exit 0 when all hold
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cudadent_optimize_test import make_tunable
from cudadent_try_test import Repository, fail

RUN = ["--device", "virtual:l4", "--iterations", "2", "--batch", "4", "--run", "shared", "--seed", "7"]
MOST_ROUNDS = 20
# Work that the search can take away, so that there is more than one thing to find.
ROUNDS = 'rounds = { choices = [1, 2, 4], default = 4, phase = "tuning" }\n'


def make_slow(repository: Repository) -> None:
    kernel = repository.project / "kernel.cu"
    loads = "const std::int64_t i = "
    kernel.write_text(
        kernel.read_text().replace(loads, f"for (volatile int r = 0; r < 4 * ROUNDS; r = r + 1) continue;\n  {loads}")
    )
    configuration = repository.project / "cudadent.toml"
    configuration.write_text(configuration.read_text() + ROUNDS)
    repository.commit()


def answer(cudadent: str, project: Path, *words: str, may_wait: bool = False) -> dict:
    ran = subprocess.run(
        [cudadent, *words, "--json"], cwd=project, capture_output=True, text=True, timeout=900
    )
    if ran.returncode not in ((0, 3) if may_wait else (0,)):
        fail(f"{' '.join(words)} exits with {ran.returncode}: {ran.stdout[-3000:]}\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout)


def clone_of(repository: Repository, name: str) -> Path:
    directory = repository.project.parent.parent / name
    subprocess.run(["git", "clone", "-q", str(repository.project.parent), str(directory)], check=True)
    return directory / repository.project.name


def decisions(said: dict) -> dict:
    """All that was decided, and on what ground; not how long it took."""
    iterations = [{key: one[key] for key in one if key != "seconds"} for one in said["iterations"]]
    return {
        "iterations": iterations,
        **{key: said[key] for key in ("start", "end", "stopped", "bottlenecks", "cycles_at_end", "predicted_at_end")},
    }


def same(one: dict, shared: dict, who: str) -> None:
    if decisions(one) != decisions(shared):
        fail(f"{who} decide otherwise:\n{json.dumps(decisions(one))}\n{json.dumps(decisions(shared))}")
    kept = sum(iteration["advanced"] for iteration in one["iterations"])
    if kept < 2:
        fail(f"{kept} changes were kept: too few to compare")
    print(f"{who}: the same {len(one['iterations'])} decisions as one process, {kept} kept")


def check_shards(cudadent: str, repository: Repository, one: dict) -> None:
    lead, *shards = [clone_of(repository, name) for name in ("lead", "first", "second")]
    counted = [0, 0]
    for _ in range(MOST_ROUNDS):
        said = answer(cudadent, lead, "optimize", *RUN, "--shard", "0/2", "--quiet", may_wait=True)
        if said["verdict"] != "WAITING":
            break
        for i, shard in enumerate(shards):
            answer(cudadent, shard, "journal", "merge", str(lead))
            told = answer(cudadent, shard, "optimize", *RUN, "--shard", f"{i + 1}/2", "--quiet")
            counted[i] += told["counted"]
        merged = answer(cudadent, lead, "journal", "merge", *(str(shard) for shard in shards))
        if merged["conflicts"] or not merged["holds"]:
            fail(f"merge: {merged}")
    else:
        fail(f"not done after {MOST_ROUNDS} rounds")
    if min(counted) == 0:
        fail(f"one shard counted nothing: {counted}")
    same(one, said, f"two shards, which counted {counted[0]} and {counted[1]} candidates,")


def refusals(cudadent: str, project: Path) -> None:
    for words, code in (
        (["--device", "cpu", "--run", "x", "--seed", "1", "--shard", "1/2"], "usage.shard"),
        (["--device", "virtual:l4", "--shard", "1/2"], "usage.shard"),
        (["--device", "virtual:l4", "--run", "x", "--seed", "1", "--shard", "3/2"], "usage.shard"),
        (["--device", "virtual:l4", "--run", "x", "--seed", "1", "--shard", "two"], "usage.shard"),
        (["--device", "virtual:l4", "--run", "x", "--seed", "1", "--shard", ""], "usage.shard"),
    ):
        ran = subprocess.run(
            [cudadent, "optimize", *words, "--json"], cwd=project, capture_output=True, text=True, timeout=60
        )
        if ran.returncode != 2 or code not in ran.stdout:
            fail(f"{words}: {ran.returncode} {ran.stdout}")


def without_ray(cudadent: str, repository: Repository) -> None:
    broken = repository.project.parent.parent / "packages"
    broken.mkdir()
    (broken / "ray.py").write_text("raise ImportError('there is none')\n")
    ran = subprocess.run(
        [cudadent, "optimize", *RUN, "--workers", "ray", "--quiet", "--json"],
        cwd=clone_of(repository, "lonely"),
        env={**os.environ, "CUDADENT_PYTHON": sys.executable, "PYTHONPATH": str(broken)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = json.loads(ran.stdout)
    if (ran.returncode, said["code"]) != (4, "environment.no_ray") or "pip install ray" not in said["error"]["fix"]:
        fail(f"without ray: {ran.returncode} {ran.stdout}")


def sockets_of(processes: set[int]) -> set[str]:
    sockets = set()
    for process in processes:
        try:
            for link in Path(f"/proc/{process}/fd").iterdir():
                target = os.readlink(link)
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
        except OSError:
            continue
    return sockets


def is_filtered(process: int) -> bool:
    """Its system calls are: the filter refuses every socket (support/confinement.cpp)."""
    try:
        return "\nSeccomp:\t2" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def listening(processes: set[int]) -> list[str]:
    """Addresses on which processes of these listen."""
    sockets = sockets_of(processes)
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.append(fields[1])
    return found


def family(root: int) -> dict[int, str]:
    """Processes below this one, with their command lines."""
    parents, words = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    below = {root}
    while more := {process for process, parent in parents.items() if parent in below} - below:
        below |= more
    return {process: words[process] for process in below if process in words}


def is_loopback(address: str) -> bool:
    host = address.split(":")[0]
    return host in ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


def is_dashboard(words: str) -> bool:
    """By its own name: the raylet names the agent that it starts."""
    return words.startswith("ray::Dashboard") or any("/dashboard/" in word for word in words.split()[:4])


def check_ray(cudadent: str, repository: Repository, one: dict, python: str) -> None:
    project = clone_of(repository, "ray")
    process = subprocess.Popen(
        [cudadent, "optimize", *RUN, "--workers", "ray:2", "--json"],
        cwd=project,
        env={**os.environ, "CUDADENT_PYTHON": python},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed, reachable, dashboards, held, confined = 0, set(), set(), set(), set()
    until = time.monotonic() + 900
    while process.poll() is None and time.monotonic() < until:
        mine = family(process.pid)
        reachable |= {address for address in listening(set(mine)) if not is_loopback(address)}
        dashboards |= {words for pid, words in mine.items() if is_dashboard(words) and listening({pid})}
        kernels = {pid for pid, words in mine.items() if words.startswith(f"{cudadent} worker")}
        held |= sockets_of(kernels)
        confined |= {pid for pid in kernels if is_filtered(pid)}
        # A worker that counts: it has a cudadent below it.
        busy = [pid for pid, words in mine.items() if words.startswith("ray::") and len(family(pid)) > 1]
        if busy and not killed:
            os.kill(busy[0], signal.SIGKILL)
            killed += 1
        time.sleep(0.3)
    out, errors = process.communicate(timeout=60)
    if process.returncode != 0:
        fail(f"--workers ray exits with {process.returncode}: {out[-3000:]}\n{errors[-5000:]}")
    if not killed:
        fail("no worker was seen at work, so none was killed")
    if reachable or dashboards:
        fail(f"sockets beyond loopback: {reachable}; dashboards that listen: {dashboards}")
    if held or not confined:
        fail(f"processes that run kernels hold {held}; {len(confined)} were seen that may open none")
    print(f"{len(confined)} processes that ran kernels were seen: without a socket, and none may be opened")
    same(one, json.loads(out), "two Ray workers, one killed in mid-run,")


def main() -> int:
    cudadent, example = str(Path(sys.argv[1]).resolve()), sys.argv[2]
    python = sys.argv[4] if sys.argv[3:4] == ["--ray"] else ""
    if python and (not Path(python).exists() or subprocess.run([python, "-c", "import ray"]).returncode != 0):
        fail(f"{python} has no ray: .ci/setup --nightly makes its environment")
    with tempfile.TemporaryDirectory(prefix="cudadent_shards_") as name:
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "state")
        repository = Repository(Path(name), cudadent, example)
        make_tunable(repository)
        make_slow(repository)
        one = answer(cudadent, repository.project, "optimize", *RUN, "--quiet")
        if python:
            check_ray(cudadent, repository, one, python)
        else:
            refusals(cudadent, repository.project)
            without_ray(cudadent, repository)
            check_shards(cudadent, repository, one)
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
