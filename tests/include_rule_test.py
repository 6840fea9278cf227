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

# Folder -> folders it may include besides itself, `support` and the public headers. The longest matching folder counts.
MAY_INCLUDE: dict[str, frozenset[str]] = {
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
    # The virtual GPU's only other edge is the driver ABI, at load time.
    "src/vgpu/ptx": frozenset(),
    "src/vgpu/memory": frozenset(),
    "src/vgpu/ir": frozenset({"src/vgpu/ptx"}),
    "src/vgpu/exec": frozenset({"src/vgpu/ptx", "src/vgpu/ir", "src/vgpu/memory"}),
    "src/vgpu/observe": frozenset({"src/vgpu/ptx", "src/vgpu/ir", "src/vgpu/memory", "src/vgpu/exec", "src/devices"}),
    "src/vgpu/driver": frozenset(
        {f"src/vgpu/{part}" for part in ("ptx", "ir", "memory", "exec", "observe")} | {"src/devices", "src/images"}
    ),
    "src/vgpu/nvjitlink": frozenset({"src/images"}),
    "src/vgpu": frozenset(),
    "src/predict": frozenset({"src/vgpu"}),
    "src/workflow": frozenset({"src/api", "src/runtime", "src/predict", "src/devices", "src/images"}),
    "tools": frozenset({"src/workflow", "src/devices"}),
    "python": frozenset(),
    "include": frozenset(),
}
# Folders that may not even use `support`: they see the library as a stranger does.
ONLY_PUBLIC_HEADERS = frozenset({"python", "include"})
# A test beside the code may also include these.
TESTS_MAY_ALSO_INCLUDE = frozenset({"src/kernels/reference", "tests"})
# The binding is python/'s business; no kernel source knows a framework type.
FRAMEWORK_HEADER = re.compile(r"^(torch|ATen|c10|pybind11|nanobind)/|^(Python|cuda_runtime)\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
FOLDER_CALL = re.compile(r"(?:flashmoe|vgpu)_folder\s*\(\s*(\w+)([^)]*)\)", re.DOTALL)
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
    if is_test(includer) and target in TESTS_MAY_ALSO_INCLUDE:
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
        # The folders of the virtual GPU share one file: vgpu_folder(ptx ...) makes the target vgpu_ptx.
        prefix = "vgpu_" if folder.startswith("src/vgpu/") else ""
        name = "src/vgpu/CMakeLists.txt" if prefix else f"{folder}/CMakeLists.txt"
        lists = root / name
        if not lists.is_file():
            violations.append(Violation(name, 1, "is missing: one target per folder"))
            continue
        text = CMAKE_COMMENT.sub("", lists.read_text(encoding="utf-8"))
        calls = {prefix + match.group(1): match for match in FOLDER_CALL.finditer(text)}
        if target not in calls:
            violations.append(Violation(name, 1, f"has no flashmoe_folder({target} ...)"))
            continue
        line = text.count("\n", 0, calls[target].start()) + 1
        used = calls[target].group(2).partition("USES")[2].split()
        for other in used:
            other_folder = by_target.get(other)
            if other_folder is None:
                violations.append(Violation(name, line, f"USES {other}, which is no folder of the include rule"))
            elif other_folder != "src/support" and other_folder not in MAY_INCLUDE[folder]:
                violations.append(Violation(name, line, f"{folder} may not use {other_folder}"))
    return violations


def check(root: Path) -> int:
    violations, files = check_includes(root)
    violations += check_targets(root)
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
    }
    for name, text in clean.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def selftest() -> int:
    failures = 0
    for plant, (name, text, expected) in {"nothing": ("include/flashmoe/ok.hpp", "\n", ""), **PLANTS}.items():
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            plant_clean_tree(root)
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            found = [str(violation) for violation in check_includes(root)[0] + check_targets(root)]
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
