"""Holds docs/architecture.md against the tree, and the paths that any page names.

    map_test.py [ROOT]      check the tree; exit 0 when it holds, 1 with one line per violation
    map_test.py --selftest  check that planted violations are found

A folder at the top, below src/ or directly in tests/ has its row in the map, and a row has its folder. A path in
backticks that begins with a folder of the tree exists, on every page. A function in backticks, `run()`, is defined in
the file that the text puts it in (`run()` in `src/x.cpp`); in the map, else in one of the files of the same paragraph.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tree import Plants, selftest, tracked_files

MAP = "docs/architecture.md"
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
FUNCTION = re.compile(r"`([A-Za-z_][\w:]*)\(\)`(?:\s+(?:in|of)\s+`([^`]+)`)?")
# A row of a table, a numbered step, or lines up to an empty one.
PARAGRAPH = re.compile(r"^\|.*|^\d+\..*(?:\n   .*)*|^[^\s|].*(?:\n(?!\d+\.|\|).+)*", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# What the build makes, and pages that tell of the past.
NOT_IN_THE_TREE = ("build/",)
PAGES_OF_THE_PAST = ("CHANGELOG.md",)


def folders_of(files: list[str]) -> set[str]:
    return {parent.as_posix() for name in files for parent in Path(name).parents if parent.as_posix() != "."}


def needs_a_row(folder: str) -> bool:
    parts = folder.split("/")
    return len(parts) == 1 or parts[0] == "src" or (parts[0] == "tests" and len(parts) == 2)


def check_rows(text: str, folders: set[str]) -> list[str]:
    rows = ROW.findall(text.partition("## Where is")[0])
    wrong = [f"{MAP}: {folder} has no row" for folder in sorted(folders) if needs_a_row(folder) and folder not in rows]
    wrong += [f"{MAP}: {row} is no folder of the tree" for row in rows if row not in folders]
    wrong += [f"{MAP}: {row} has two rows" for row in sorted(set(rows)) if rows.count(row) > 1]
    return wrong


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check_paths(page: str, text: str, files: set[str], folders: set[str]) -> list[str]:
    wrong = []
    tops = {folder for folder in folders if "/" not in folder}
    prose = FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)
    for match in CODE.finditer(prose):
        # A path ends where an argument or a pattern begins.
        path = match.group(1).split()[0].rstrip("/").partition(":")[0]
        if "/" not in path or path.split("/")[0] not in tops or path.startswith(NOT_IN_THE_TREE):
            continue
        if any(sign in path for sign in "*<>{}$"):
            continue
        if path not in files and path not in folders:
            wrong.append(f"{page}:{line_of(prose, match.start())}: {path} is not in the tree")
    for match in LINK.finditer(prose):
        if "://" in match.group(1) or match.group(1).startswith("mailto:"):
            continue
        target = (Path("/") / Path(page).parent / match.group(1)).as_posix()
        parts: list[str] = []
        for part in target.strip("/").split("/"):
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        if "/".join(parts) not in files | folders:
            wrong.append(f"{page}:{line_of(prose, match.start())}: the link {match.group(1)} leads nowhere")
    return wrong


def defines(source: str, function: str, is_python: bool) -> bool:
    if is_python:
        return re.search(rf"^\s*def {re.escape(function)}\(", source, re.MULTILINE) is not None
    # A head that a body follows; parameters hold no semicolon, a call at the beginning of a line has no type before it.
    head = rf"^[\w\[][^\n;=()]*?[\s&*>]{re.escape(function)}\([^;{{}}]*?\)[\w\s&:>-]*\{{"
    method = rf"^ +[\w\[][^\n;=().]*?[\s&*>]{re.escape(function)}\([^;{{}}]*?\)[\w\s&:>-]*\{{"
    return re.search(f"{head}|{method}", source, re.MULTILINE) is not None


def check_functions(root: Path, page: str, text: str, files: set[str]) -> list[str]:
    """In the map every function has its file; on other pages those that the text puts in one."""
    wrong = []
    prose = FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)
    for paragraph in PARAGRAPH.finditer(prose):
        named = [path for path in CODE.findall(paragraph.group()) if path in files] if page == MAP else []
        for match in FUNCTION.finditer(paragraph.group()):
            function, place = match.groups()
            candidates = [place] if place in files else named
            if page != MAP and not candidates:
                continue
            sources = [(path, (root / path).read_text(encoding="utf-8")) for path in candidates]
            if not any(defines(source, function, path.endswith(".py")) for path, source in sources):
                line = line_of(prose, paragraph.start() + match.start())
                places = ", ".join(candidates) or "any file named"
                wrong.append(f"{page}:{line}: {function}() is not defined in {places}")
    return wrong


def check(root: Path) -> tuple[list[str], int]:
    files = tracked_files(root)
    folders = folders_of(files)
    pages = [name for name in files if name.endswith(".md") and name not in PAGES_OF_THE_PAST]
    text = (root / MAP).read_text(encoding="utf-8")
    wrong = check_rows(text, folders)
    for page in pages:
        text = (root / page).read_text(encoding="utf-8")
        wrong += check_functions(root, page, text, set(files)) + check_paths(page, text, set(files), folders)
    return wrong, len(pages)


CLEAN = {
    MAP: (
        "| folder | what |\n| --- | --- |\n| `src` | code |\n| `src/plan` | plans |\n| `docs` | pages |\n\n"
        "## Where is ...\n| question | answer |\n| --- | --- |\n| a plan | `make()` in `src/plan/plan.cpp` |\n\n"
        "1. `make()` in `src/plan/plan.cpp` calls `Plan::check()`,\n   and `build/x/y` is no matter.\n"
    ),
    "src/plan/plan.cpp": "int make(int a,\n         int b) {\n  helper(a);\n}\nbool Plan::check() const {\n}\n",
}
PLANTS: Plants = {
    "folder of src without a row": ("src/attic/a.cpp", "", "src/attic has no row"),
    "folder deep in src without a row": ("src/plan/deep/a.cpp", "", "src/plan/deep has no row"),
    "top folder without a row": ("extra/a.txt", "", "extra has no row"),
    "folder of tests without a row": ("tests/new/a.py", "", "tests/new has no row"),
    "row without a folder": (MAP, CLEAN[MAP].replace("`docs` |", "`docs` |\n| `src/gone` |"), "src/gone is no folder"),
    "two rows": (MAP, CLEAN[MAP].replace("| `docs`", "| `src` | again |\n| `docs`"), "src has two rows"),
    "path that is gone": ("docs/page.md", "See\n`src/plan/gone.cpp`.\n", "docs/page.md:2: src/plan/gone.cpp is not"),
    "link to nowhere": ("docs/page.md", "[x](../src/gone.md#part)\n", "the link ../src/gone.md leads nowhere"),
    "function that is gone": (
        MAP,
        CLEAN[MAP].replace("`make()` in", "`made()` in"),
        "made() is not defined in src/plan/plan.cpp",
    ),
    "function that is only called": (MAP, CLEAN[MAP].replace("Plan::check", "helper"), "helper() is not defined"),
    "function on another page": (
        "a.md",
        "Of it\n`gone()` in `src/plan/plan.cpp`.\n",
        "a.md:2: gone() is not defined in",
    ),
    "function in another file": (
        "src/plan/plan.cpp",
        "int make();\nbool Plan::check() const {\n}\n",
        "make() is not defined in src/plan/plan.cpp",
    ),
}


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        return selftest(CLEAN, PLANTS, lambda root: check(root)[0])
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    wrong, pages = check(root)
    for line in wrong:
        print(line)
    print(f"map: {pages} pages, {len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
