"""The Markdown pages of the tree as a site, with every internal link checked.

    site.py                build/site/html; exit 0, or 1 with what is wrong
    site.py --selftest     are planted faults found?

A page is the same file on a forge and here: the tree of pages is the tree of the repository, so that a link from one
file to another holds in both. What a page links to and is no page (a header, a picture) comes along; a folder cannot.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BEGINS_BLOCK = re.compile(r"^(?:- |1\. |\|)")
BAR = r"\|"
CODE_WITH_BAR = re.compile(r"`([^`]*\\\|[^`]*)`")
NO_PARAGRAPH = re.compile(r"^(?:$|\s|#|- |\d+\. |\||<!--|```)")


def pages_of(root: Path) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (root / name).is_file()]


def for_the_site(text: str) -> str:
    """Forges let a list or a table follow a paragraph at once; the site's Markdown wants an empty line between. And in
    code in a table \\| is a bar there, but two characters here."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        if not is_code and BEGINS_BLOCK.match(line) and lines and not NO_PARAGRAPH.match(lines[-1]):
            lines.append("")
        is_code ^= line.lstrip().startswith("```")
        if not is_code and line.startswith("|"):
            line = CODE_WITH_BAR.sub(lambda match: f"<code>{escape(match[1]).replace(BAR, '&#124;')}</code>", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def gather(root: Path, to: Path) -> list[str]:
    """Copies pages and what they link to; says what a site could not show."""
    wrong = []
    pages = pages_of(root)
    for page in pages:
        text = (root / page).read_text(encoding="utf-8")
        (to / page).parent.mkdir(parents=True, exist_ok=True)
        (to / page).write_text(for_the_site(text), encoding="utf-8")
        for link in LINK.findall(FENCE.sub("", text)):
            if urlsplit(link).scheme or link.startswith("/"):
                continue
            target = Path(os.path.normpath(Path(page).parent / link))
            if (root / target).is_dir():
                wrong.append(f"{page}: {link} is a folder, of which a site has no page: link to a file in it")
            elif target.as_posix() not in pages and (root / target).is_file():
                (to / target).parent.mkdir(parents=True, exist_ok=True)
                (to / target).write_bytes((root / target).read_bytes())
    return wrong


def build(configuration: Path, to: Path) -> list[str]:
    # Not --quiet: what is not said does not count for --strict.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", to]
    # The theme's notice about another program is no fault of a page.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(
        [*command, "--config-file", configuration], capture_output=True, text=True, env=environment, check=False
    )
    if ran.returncode == 0:
        return []
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if line and not line.startswith("INFO")]
    return said or [f"mkdocs ended with {ran.returncode}"]


class Names(HTMLParser):
    """Of a page: what it refers to, and what can be referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            elif value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)


def check_links(site: Path) -> list[str]:
    """Of the pages as they came out, so that HTML inside of Markdown is checked as well."""
    names = {}
    for file in site.rglob("*.html"):
        names[file] = Names()
        names[file].feed(file.read_text(encoding="utf-8"))
    wrong = []
    for file, page in names.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            base = site if parts.path.startswith("/") else file.parent
            target = Path(os.path.normpath(base / unquote(parts.path).lstrip("/"))) if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            shown = f"{file.relative_to(site).as_posix()}: {link}"
            if not target.is_file():
                wrong.append(f"{shown} leads nowhere")
            elif parts.fragment and target in names and unquote(parts.fragment) not in names[target].anchors:
                wrong.append(f"{shown}: the page has no such place")
    return wrong


def make(root: Path, configuration: Path, work: Path) -> list[str]:
    pages, html = work / "pages", work / "html"
    subprocess.run(["rm", "-rf", pages], check=True)
    pages.mkdir(parents=True)
    return gather(root, pages) + build(configuration, html) + check_links(html)


CLEAN = {
    "README.md": "# R\nSee:\n- [a](docs/a.md#part-one)\n\n| a |\n| --- |\n| `x\\|y` |\n",
    "docs/a.md": "# A\n## Part one\n[r](../README.md)\n",
}
AS_ON_A_FORGE = {
    "a list that follows a paragraph at once": '<li><a href="docs/a/#part-one">a</a></li>',
    "a bar in code in a table": "<td><code>x&#124;y</code></td>",
}
PLANTED = {
    "README.md": "# R\n[1](docs/gone.md) [2](docs/a.md#part-two) [3](docs) ![4](docs/gone.svg) [5](/docs/a.md)\n"
    '<a href="docs/nowhere">6</a>\n',
    "docs/b.md": "# B\n",
}
FOUND = (
    "'docs/gone.md', but the target is not found",
    "'docs/a.md#part-two', but the doc 'docs/a.md' does not contain",
    "README.md: docs is a folder",
    "index.html: docs/gone.svg leads nowhere",
    "index.html: docs/nowhere leads nowhere",
    "'/docs/a.md'",
    "docs/b.md",
)


def made_of(files: dict[str, str]) -> tuple[list[str], str]:
    """What is wrong with the site of these files, and its first page."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        nav = f"INHERIT: {HERE}/mkdocs.yml\ndocs_dir: pages\nnav: [README.md, docs/a.md]\nnot_in_nav: ''\n"
        for path, content in (files | {"build/mkdocs.yml": nav, ".gitignore": "build/\n"}).items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        found = make(root, root / "build/mkdocs.yml", root / "build")
        return found, (root / "build/html/index.html").read_text(encoding="utf-8")


def selftest() -> int:
    found, first_page = made_of(CLEAN)
    failures = [f"found in pages without a fault: {line}" for line in found]
    failures += [f"{what} is none" for what, html in AS_ON_A_FORGE.items() if html not in first_page]
    found, _ = made_of(CLEAN | PLANTED)
    failures += [f"not found: {part}, in {found}" for part in FOUND if not any(part in line for line in found)]
    for failure in failures:
        print(f"site selftest: {failure}")
    print(f"site selftest: {len(FOUND)} planted faults, {len(failures)} failures")
    return 1 if failures else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        return selftest()
    wrong = make(ROOT, HERE / "mkdocs.yml", ROOT / "build" / "site")
    for line in wrong:
        print(line)
    print(f"site: {len(pages_of(ROOT))} pages, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
