"""The model stands still: what it predicts for a fixed set of kernels moves by less than 0.5 % without a stated reason.

    drift_test.py CUDADENT REPOSITORY              exit 0 when nothing moved
    drift_test.py --rebase CUDADENT REPOSITORY     write what is predicted now, and say why in the commit

The figures are of the SASS that one release of the toolkit makes; tests/predict/drift.json says which.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from variants_test import POINT, prepare

KEPT = Path(__file__).with_name("drift.json")
MOST = 0.005
# Project, workload, point (of the journey).
SET = {
    "attention_naive": ("examples/attention_naive", "", None),
    "softmax": ("examples/cudadent/softmax", "", None),
    "vector_add, small": ("examples/cudadent/vector_add", "small", None),
    "journey, first design": ("", "target", {}),
    "journey, tensor cores": ("", "target", POINT),
    "journey, tensor cores, full": ("", "full", POINT),
}


def toolkit() -> str:
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release (\S+),", said)[1]


def cycles(cudadent: str, project: Path, workload: str) -> float:
    command = [cudadent, "predict", ".", "--device", "virtual:l4", "--json"]
    command += ["--workload", workload] if workload else []
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)
    answer = json.loads(ran.stdout)
    if "cycles" not in answer:
        raise SystemExit(f"{project}: {ran.stdout[-1500:]}")
    return answer["cycles"]


def predicted(cudadent: str, repository: Path) -> dict[str, float]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        journey = prepare(repository, Path(folder))
        for name, (project, workload, point) in SET.items():
            if point is not None:
                (journey / "point.toml").write_text("".join(f"{key} = {value}\n" for key, value in point.items()))
            found[name] = cycles(cudadent, repository / project if project else journey, workload)
    return found


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--rebase"]
    cudadent, repository = (Path(word).resolve() for word in words)
    now = predicted(str(cudadent), repository)
    release = toolkit()
    if "--rebase" in sys.argv:
        KEPT.write_text(json.dumps({"toolkit": release, "cycles": now}, indent=2) + "\n")
        return 0
    kept = json.loads(KEPT.read_text())
    if kept["toolkit"] != release:
        print(f"SKIPPED: the figures are of toolkit {kept['toolkit']}, here is {release}")
        return 77
    moved = {name: now[name] / kept["cycles"][name] - 1 for name in SET}
    for name, share in moved.items():
        print(f"{name:<30} {now[name]:>10.0f} cycles predicted, {100 * share:+.2f} %")
    if max(abs(share) for share in moved.values()) > MOST:
        print("FAILED: the model has moved; say why and run this with --rebase")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
