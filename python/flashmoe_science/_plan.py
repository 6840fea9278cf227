"""The choices that the library makes for a call, without making the call."""

import json
from dataclasses import dataclass
from typing import Any

from . import _C


@dataclass(frozen=True)
class Plan:
    """What would run: ``text`` for people (also ``str(plan)``), ``data`` for programs."""

    text: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return self.text


def plan(q: Any, k: Any, v: Any, **options: Any) -> Plan:
    """Plan ``attention(q, k, v, **options)`` on this machine, with the current number of threads.

    ``q``, ``k``, ``v`` and the arrays among the options are tensors, NumPy arrays or, without any data, shapes (tuples
    of ints); ``dtype`` ("float16" unless given) is then the type of ``q``, ``k`` and ``v``, and ``device`` where they
    would be: "cpu" unless given, "cuda" or "cuda:<n>".
    """
    text, as_json = _C.plan_attention(q, k, v, **options)
    return Plan(text, json.loads(as_json))
