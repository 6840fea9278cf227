"""Holds the layering of the source tree: who may include whom, and one CMake target per folder.

    include_rule_test.py [ROOT]     check the tree; exit 0 when it holds, 1 with one line per violation
    include_rule_test.py --selftest check that planted violations are found

Includes are resolved as the compiler does (beside the file, then src/, then include/); what resolves to none of them is
a system header and only checked against the list of frameworks that no source here may know.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Houses whose rooms stand on floors, from the ground up: a room may include what stands on floors below it, and nothing
# beside it. So there is no circle. Rooms without a folder yet are foreseen.
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "src/workflow": (
        ("verdict", "statistics"),  # words and numbers; no process, no file
        ("project", "device"),  # what the user wrote; where to run
        ("compile", "runner", "journal", "machine"),  # builds; somebody's kernel; records; a machine by the hour
        ("environment", "gpu", "first_light"),  # the machine's facts; launches, profiles; a card, once, all of it
        ("predict",),  # a time for what no clock has measured
        ("advise", "card"),  # the one bottleneck; launches that a real card counted, or nobody
        ("gates",),  # the table of gates
        ("compare",),  # two versions
        ("trial", "reproduce"),  # one change; a recorded run again
        ("optimize", "selftest"),  # the loop over trials; the tool's own error rates
        ("report",),  # for people
        ("output",),  # for machines: --json
        ("agents", "mcp"),  # doors for others
    ),
    "src/vgpu": (
        ("ptx", "memory"),
        ("ir",),
        ("exec",),
        ("observe",),
        ("driver", "nvjitlink", "nvml"),
        ("cudart", "cublas"),
    ),
}
# Rooms that use less than all that stands below them.
USES_ONLY: dict[str, frozenset[str]] = {
    "src/vgpu/ir": frozenset({"src/vgpu/ptx"}),
    "src/vgpu/nvjitlink": frozenset(),  # it hands images on
    "src/vgpu/nvml": frozenset(),  # it answers from the table of cards
    "src/vgpu/cudart": frozenset({"src/vgpu/driver"}),  # its written ABI and its log; it calls it as a stranger does
    "src/vgpu/cublas": frozenset({"src/vgpu/driver"}),  # the same, and how it takes work that the CPU does
}
# What a room may include outside its house.
OUTSIDE: dict[str, frozenset[str]] = {
    "src/workflow/device": frozenset({"src/devices", "src/runtime"}),
    "src/workflow/compile": frozenset({"src/devices", "src/images"}),
    "src/workflow/runner": frozenset({"src/runtime"}),
    "src/workflow/journal": frozenset({"src/devices"}),
    "src/workflow/environment": frozenset({"src/devices", "src/images", "src/runtime"}),
    "src/workflow/gpu": frozenset({"src/devices", "src/images", "src/runtime"}),
    "src/workflow/predict": frozenset({"src/devices", "src/images", "src/predict"}),
    "src/workflow/card": frozenset({"src/devices", "src/predict", "src/runtime"}),
    "src/workflow/gates": frozenset({"src/devices", "src/images"}),
    "src/workflow/report": frozenset({"src/devices"}),
    "src/workflow/output": frozenset({"src/devices"}),
    # The virtual GPU's only other edge is the driver ABI, at load time.
    "src/vgpu/observe": frozenset({"src/devices"}),
    "src/vgpu/driver": frozenset({"src/devices", "src/images"}),
    "src/vgpu/nvjitlink": frozenset({"src/images"}),
    "src/vgpu/nvml": frozenset({"src/devices"}),
    "src/vgpu/cublas": frozenset({"src/images"}),  # its test reads what the libraries show
    "src/vgpu/cudart": frozenset({"src/images"}),  # how long the parts of relocatable code are
}


def rooms_below(house: str, room: str) -> frozenset[str]:
    below: set[str] = set()
    for floor in FLOORS[house]:
        if room in floor:
            return USES_ONLY.get(f"{house}/{room}", frozenset(below))
        below |= {f"{house}/{other}" for other in floor}
    raise KeyError(room)


ROOMS: dict[str, frozenset[str]] = {
    f"{house}/{room}": rooms_below(house, room) | OUTSIDE.get(f"{house}/{room}", frozenset())
    for house, floors in FLOORS.items()
    for floor in floors
    for room in floor
}
# Folder -> folders it may include besides itself, `support` and the public headers. The longest matching folder counts.
MAY_INCLUDE: dict[str, frozenset[str]] = {
    "src/foreign": frozenset(),  # others' sources alone
    "src/support": frozenset(),
    "src/devices": frozenset(),
    "src/images": frozenset(),
    "src/plan": frozenset({"src/devices"}),
    "src/runtime": frozenset(),
    "src/kernels/reference": frozenset(),  # the oracle shares nothing with what it checks
    "src/kernels/cpu": frozenset({"src/plan", "src/runtime"}),
    "src/kernels/cuda": frozenset({"src/plan", "src/devices", "src/runtime", "src/kernels/cuda/jit"}),
    "src/kernels/cuda/jit": frozenset(),  # it takes the device code as text
    "src/api": frozenset({"src/plan", "src/kernels/cpu", "src/kernels/cuda", "src/runtime"}),
    "src/vgpu": frozenset(),
    **ROOMS,
    "src/predict": frozenset({"src/devices"}),
    "tools": frozenset({folder for folder in ROOMS if folder.startswith("src/workflow/")} | {"src/devices"}),
    "python": frozenset(),
    "include": frozenset(),
}
# Folders that may not even use `support`: they see the library as a stranger does.
ONLY_PUBLIC_HEADERS = frozenset({"python", "include"})
# A test beside the code may also include these, and the rooms beside its own: nothing links against a test.
TESTS_MAY_ALSO_INCLUDE = frozenset({"src/kernels/reference", "tests"})
# JSON is how a record, an answer or a message is written, not how the workflow thinks: its type stands in no other
# header there.
JSON_IN_HEADERS = frozenset({f"src/workflow/{room}" for room in ("journal", "report", "output", "mcp")})
JSON_TYPE = re.compile(r"\bJson\b|\bnlohmann\b|support/json")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# The binding is python/'s business; no kernel source knows a framework type.
FRAMEWORK_HEADER = re.compile(r"^(torch|ATen|c10|pybind11|nanobind)/|^(Python|cuda_runtime)\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
FOLDER_CALL = re.compile(r"(?:flashmoe|vgpu|workflow)_folder\s*\(\s*(\w+)([^)]*)\)", re.DOTALL)
CMAKE_COMMENT = re.compile(r"#[^\n]*")
SUFFIXES = {".h", ".hpp", ".inc", ".c", ".cpp", ".cu", ".cuh", ".def"}


@dataclass(frozen=True)
class Violation:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def folder_of(path: str) -> str | None:
    """The rule's folder that `path` (relative to the root) lies in."""
    candidates = [folder for folder in MAY_INCLUDE if path.startswith(folder + "/")]
    return max(candidates, key=len, default=None)


def is_test(path: str) -> bool:
    return path.rsplit(".", 1)[0].endswith("_test")


def resolve(root: Path, includer: Path, target: str, quoted: bool) -> str | None:
    """The included file relative to the root, or None for a system header."""
    bases = ([includer.parent] if quoted else []) + [root / "src", root / "include", root]
    for base in bases:
        candidate = (base / target).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    return None


def floor_of(folder: str) -> tuple[str, ...]:
    """The rooms that stand on the same floor."""
    house, _, room = folder.rpartition("/")
    floors = [floor for floor in FLOORS.get(house, ()) if room in floor]
    return tuple(f"{house}/{other}" for floor in floors for other in floor)


def is_allowed(includer: str, included: str) -> bool:
    source, target = folder_of(includer), folder_of(included)
    if source is None:
        return True
    if target is None:
        return is_test(includer) and included.startswith("tests/")
    if target in (source, "include"):
        return True
    if target == "src/support":
        return source not in ONLY_PUBLIC_HEADERS
    if is_test(includer) and (target in TESTS_MAY_ALSO_INCLUDE or target in floor_of(source)):
        return True
    return target in MAY_INCLUDE[source]


def check_includes(root: Path) -> tuple[list[Violation], int]:
    violations: list[Violation] = []
    files = 0
    for top in ("src", "include", "tools", "python"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            files += 1
            name = path.relative_to(root).as_posix()
            if folder_of(name) is None:
                violations.append(Violation(name, 1, "lies in no folder the include rule knows"))
                continue
            text = path.read_text(encoding="utf-8")
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start(2)) + 1
                target = match.group(2)
                included = resolve(root, path, target, match.group(1) == '"')
                if included is not None and not is_allowed(name, included):
                    violations.append(Violation(name, line, f"{folder_of(name)} may not include {included}"))
                if top != "python" and FRAMEWORK_HEADER.search(target):
                    violations.append(Violation(name, line, f"no source outside python/ may include {target}"))
    return violations, files


def check_json(root: Path) -> list[Violation]:
    """The type of the JSON library stays out of the workflow's headers."""
    violations: list[Violation] = []
    for path in sorted((root / "src/workflow").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in {".h", ".hpp", ".inc"} or folder_of(name) in JSON_IN_HEADERS:
            continue
        text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), path.read_text(encoding="utf-8"))
        for match in JSON_TYPE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            violations.append(Violation(name, line, f"has the JSON type in a header: {match.group()}"))
    return violations


def target_name(folder: str) -> str:
    """src/kernels/cpu -> kernels_cpu, the name that flashmoe_folder() gets."""
    return folder.removeprefix("src/").replace("/", "_")


def check_targets(root: Path) -> list[Violation]:
    """Every folder of src/ that holds sources makes its own target, and links only what it may include."""
    violations: list[Violation] = []
    by_target = {target_name(folder): folder for folder in MAY_INCLUDE if folder.startswith("src/")}
    for target, folder in by_target.items():
        sources = [path.relative_to(root).as_posix() for path in (root / folder).rglob("*.cpp")]
        if not any(folder_of(source) == folder and not is_test(source) for source in sources):
            continue
        # The rooms of a house share one file: vgpu_folder(ptx ...) makes the target vgpu_ptx.
        house = folder.rpartition("/")[0] if folder in ROOMS else ""
        prefix = f"{target_name(house)}_" if house else ""
        name = f"{house or folder}/CMakeLists.txt"
        lists = root / name
        if not lists.is_file():
            violations.append(Violation(name, 1, "is missing: one target per folder"))
            continue
        text = CMAKE_COMMENT.sub("", lists.read_text(encoding="utf-8"))
        calls = {prefix + match.group(1): match for match in FOLDER_CALL.finditer(text)}
        if target not in calls:
            violations.append(Violation(name, 1, f"makes no target {target}: one target per folder"))
            continue
        line = text.count("\n", 0, calls[target].start()) + 1
        # What only tests link is no edge between folders.
        used = calls[target].group(2).partition("TEST_USES")[0].partition("USES")[2].split()
        for other in used:
            other_folder = by_target.get(other)
            if other_folder is None:
                violations.append(Violation(name, line, f"USES {other}, which is no folder of the include rule"))
            elif other_folder != "src/support" and other_folder not in MAY_INCLUDE[folder]:
                violations.append(Violation(name, line, f"{folder} may not use {other_folder}"))
    return violations


def check(root: Path) -> int:
    violations, files = check_includes(root)
    violations += check_targets(root) + check_json(root)
    for violation in violations:
        print(violation)
    if files == 0:
        print(f"{root}: no source file found")
        return 1
    print(f"include rule: {files} files, {len(violations)} violations")
    return 1 if violations else 0


# name of the plant -> (file, its text, part of the message that must appear)
PLANTS: dict[str, tuple[str, str, str]] = {
    "upward include": ("src/plan/bad.hpp", '#include "api/api.hpp"\n', "src/plan may not include src/api/api.hpp"),
    "relative path": ("src/plan/bad.hpp", '#include "../api/api.hpp"\n', "src/plan may not include src/api/api.hpp"),
    "angle brackets": ("src/plan/bad.hpp", "#include <api/api.hpp>\n", "src/plan may not include src/api/api.hpp"),
    "spaces": ("src/plan/bad.hpp", '  #  include  "api/api.hpp"\n', "src/plan may not include src/api/api.hpp"),
    "oracle uses the kernels": (
        "src/kernels/reference/bad.cpp",
        '#include "kernels/cpu/exp2.hpp"\n',
        "src/kernels/reference may not include src/kernels/cpu/exp2.hpp",
    ),
    "kernels use the oracle": (
        "src/kernels/cpu/bad.cpp",
        '#include "kernels/reference/oracle.hpp"\n',
        "src/kernels/cpu may not include src/kernels/reference/oracle.hpp",
    ),
    "devices look up": ("src/devices/bad.hpp", '#include "plan/plan.hpp"\n', "src/devices may not include src/plan"),
    "devices in the CPU's kernels": (
        "src/kernels/cpu/bad.cpp",
        '#include "devices/device.hpp"\n',
        "src/kernels/cpu may not include src/devices/device.hpp",
    ),
    "virtual GPU sees the plan": ("src/vgpu/bad.cpp", '#include "plan/plan.hpp"\n', "src/vgpu may not include"),
    "python looks inside": ("python/bad.cpp", '#include "../src/plan/plan.hpp"\n', "python may not include src/plan"),
    "public header looks inside": ("include/flashmoe/bad.hpp", '#include "support/status.hpp"\n', "include may not"),
    "torch in a kernel": ("src/kernels/cpu/bad.cpp", "#include <torch/all.h>\n", "no source outside python/"),
    "unknown folder": ("src/misc/bad.cpp", "\n", "lies in no folder"),
    "folder without a target": ("src/runtime/bad.cpp", "\n", "src/runtime/CMakeLists.txt:1: is missing"),
    "upward in the workflow": (
        "src/workflow/verdict/bad.hpp",
        '#include "workflow/gates/gates.hpp"\n',
        "src/workflow/verdict may not include src/workflow/gates/gates.hpp",
    ),
    "beside in the workflow": (
        "src/workflow/runner/bad.cpp",
        '#include "workflow/compile/compile.hpp"\n',
        "src/workflow/runner may not include src/workflow/compile/compile.hpp",
    ),
    "circle in the workflow": (
        "src/workflow/gates/bad.hpp",
        '#include "../compare/compare.hpp"\n',
        "src/workflow/gates may not include src/workflow/compare/compare.hpp",
    ),
    "a test looks upward": (
        "src/workflow/gates/gates_test.cpp",
        '#include "workflow/compare/compare.hpp"\n',
        "src/workflow/gates may not include src/workflow/compare/compare.hpp",
    ),
    "room nobody knows": ("src/workflow/attic/bad.hpp", "\n", "lies in no folder"),
    "file outside the rooms": ("src/workflow/bad.hpp", "\n", "lies in no folder"),
    "upward in the virtual GPU": (
        "src/vgpu/ptx/bad.hpp",
        '#include "vgpu/exec/exec.hpp"\n',
        "src/vgpu/ptx may not include src/vgpu/exec/exec.hpp",
    ),
    "circle in the virtual GPU": (
        "src/vgpu/exec/bad.hpp",
        '#include "vgpu/observe/observe.hpp"\n',
        "src/vgpu/exec may not include src/vgpu/observe/observe.hpp",
    ),
    "room without a target": ("src/workflow/gates/bad.cpp", "\n", "makes no target workflow_gates"),
    "room links upward": (
        "src/workflow/CMakeLists.txt",
        "workflow_folder(runner USES workflow_gates support TEST_USES workflow_compile)\n",
        "src/workflow/runner may not use src/workflow/gates",
    ),
    "JSON in a header": (
        "src/workflow/gates/bad.hpp",
        "// why\nstruct Gate { Json data; };\n",
        "src/workflow/gates/bad.hpp:2: has the JSON type in a header: Json",
    ),
    "JSON in a header, forward": (
        "src/workflow/gates/bad.hpp",
        "#include <nlohmann/json_fwd.hpp>\n",
        "has the JSON type in a header: nlohmann",
    ),
    "target links upward": (
        "src/plan/CMakeLists.txt",
        "flashmoe_folder(plan SOURCES plan.cpp USES support api)\n",
        "src/plan may not use src/api",
    ),
}


def plant_clean_tree(root: Path) -> None:
    clean = {
        "include/flashmoe/flashmoe.h": "#include <stdint.h>\n",
        "python/module.cpp": "#include <flashmoe/flashmoe.h>\n#include <torch/csrc/stable/library.h>\n",
        "src/support/status.hpp": "\n",
        "src/support/status.cpp": '#include "support/status.hpp"\n',
        "src/support/CMakeLists.txt": "flashmoe_folder(support SOURCES status.cpp)\n",
        "src/devices/device.hpp": "\n",
        "src/plan/plan.hpp": '#include "devices/device.hpp"\n#include "support/status.hpp"\n',
        "src/plan/plan.cpp": '#include "plan.hpp"\n',
        "src/plan/CMakeLists.txt": "flashmoe_folder(plan SOURCES plan.cpp USES support)\n",
        "src/kernels/cpu/exp2.hpp": '#include "plan/plan.hpp"\n',
        "src/kernels/cpu/exp2_test.cpp": '#include "kernels/reference/oracle.hpp"\n',
        "src/kernels/reference/oracle.hpp": "#include <flashmoe/flashmoe.h>\n",
        "src/api/api.hpp": '#include "plan/plan.hpp"\n#include "kernels/cpu/exp2.hpp"\n',
        "src/workflow/verdict/verdict.hpp": '#include "support/status.hpp"\n',
        "src/workflow/journal/journal.hpp": "Json append(Json record);\n",
        "src/workflow/compile/compile.hpp": '// Writes JSON; knows no Json.\n#include "workflow/verdict/verdict.hpp"\n',
        "src/workflow/runner/runner.cpp": "Json request;\n",
        "src/workflow/runner/runner_test.cpp": '#include "workflow/compile/compile.hpp"\n',
        "src/workflow/gates/gates.hpp": '#include "workflow/compile/compile.hpp"\n',
        "src/workflow/compare/compare.hpp": '#include "workflow/gates/gates.hpp"\n',
        "src/workflow/CMakeLists.txt": "workflow_folder(runner USES support TEST_USES workflow_compile)\n",
        "src/vgpu/exec/exec.hpp": "\n",
        "src/vgpu/observe/observe.hpp": '#include "vgpu/exec/exec.hpp"\n',
    }
    for name, text in clean.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def selftest_of_floors() -> int:
    """In every room, also those without a folder yet, a file that includes every room of its house: exactly what stands
    beside or above is refused, whatever else the tables say."""
    failures = 0
    for house, floors in FLOORS.items():
        height = {f"{house}/{room}": floor for floor, rooms in enumerate(floors) for room in rooms}
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            for folder in height:
                (root / folder).mkdir(parents=True)
                (root / folder / "door.hpp").write_text("\n", encoding="utf-8")
                doors = "".join(f'#include "{other.removeprefix("src/")}/door.hpp"\n' for other in height)
                (root / folder / "all.hpp").write_text(doors, encoding="utf-8")
            found = {violation.text for violation in check_includes(root)[0]}
        upward = {
            f"{folder} may not include {other}/door.hpp"
            for folder in height
            for other in height
            if other != folder and height[other] >= height[folder]
        }
        less = {text for text in found - upward if text.split()[0] not in USES_ONLY}
        right = upward <= found and not less
        failures += not right
        found_wrong = f"allowed {sorted(upward - found)}, refused {sorted(less)}"
        print(f"{'ok  ' if right else 'FAIL'} floors of {house}: {found_wrong}")
    return failures


def selftest() -> int:
    failures = selftest_of_floors()
    for plant, (name, text, expected) in {"nothing": ("include/flashmoe/ok.hpp", "\n", ""), **PLANTS}.items():
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            plant_clean_tree(root)
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            found = [str(violation) for violation in check_includes(root)[0] + check_targets(root) + check_json(root)]
            right = any(expected in line for line in found) if expected else not found
            if not right:
                failures += 1
            print(f"{'ok  ' if right else 'FAIL'} {plant}: {found}")
    return 1 if failures else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        return selftest()
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent
    return check(root.resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
