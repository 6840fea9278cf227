"""As much of nvdisasm's text as a walk over declared paths needs: opcodes, guards, targets."""

from __future__ import annotations

import re

from declared_paths import Step

_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
_TARGET = re.compile(r"`\((\.L_\w+)\)")


def steps(text: str) -> list[Step]:
    """Of the one kernel in the text."""
    labels: dict[str, int] = {}
    found: list[tuple[str, bool, str | None]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label.group(1)] = len(found)
        elif match := _INSTRUCTION.match(line):
            target = _TARGET.search(match.group(3))
            found.append((match.group(2), match.group(1) is None, target.group(1) if target else None))
    return [Step(opcode, always, labels.get(target or "")) for opcode, always, target in found]
