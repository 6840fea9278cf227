"""One SM a second time, slowly: every cycle is looked at, every counter counted.

Written from the rules at the head of src/predict/sm.hpp and from the figures of docs/predict.md, and shares nothing with the
simulator that it judges. It knows a few instructions, by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

QUEUE = 5  # of memory instructions in a sub-partition
XU_QUEUE = 2
BARRIER = 16
CTA_GAP = 300


@dataclass(frozen=True)
class Card:
    tensor: float
    fma: float
    l2_bytes: float
    global_latency: int
    add: float = 2


CARDS = {
    "l4": Card(16, 1, 20, 224),
    "a100": Card(8, 2, 35.5, 206),
    "h100": Card(6.4, 1, 37.5, 280),
    "rtx4090": Card(32, 1, 14.7, 277),
}

# name -> wavefronts, cycles to the result, cycles until the sources were read, bytes of L2
MEMORY = {
    "LDS": (1, 24, 9, 0),
    "LDS.128": (4, 24, 9, 0),
    "LDSM.16.M88.4": (4, 30, 9, 0),
    "STS.64": (2, 24, 14, 0),
    "SHFL.BFLY": (1, 24, 9, 0),
    "LDL": (2, 36, 9, 0),
    "LDG.E": (2, None, 11, 128),
    "LDG.E.128": (4, None, 11, 512),
    "STG.E.128": (4, None, 20, 512),
    "LDGSTS.E.BYPASS.128": (4, None, 13, 512),
}


@dataclass(frozen=True)
class Code:
    opcode: str
    operands: str = ""
    stall: int = 1
    yields: bool = False
    write: int = 7
    read: int = 7
    wait: int = 0


@dataclass(eq=False)
class Warp:
    path: list[int]
    start: int
    cta: Cta
    number: int
    at: int = 0
    not_before: int = 0
    waits: bool = False
    outstanding: list[tuple[int, int]] = field(default_factory=list)  # counter, lowered at
    pending: int = 0
    groups: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Cta:
    number: int
    slot: int
    warps: list[Warp] = field(default_factory=list)
    arrived: list[Warp] = field(default_factory=list)


class Part:
    def __init__(self) -> None:
        self.free = dict.fromkeys(("tensor", "fma", "heavy", "alu", "xu"), 0.0)
        self.xu_places: list[int] = []
        self.memory_places: list[int] = []
        self.local = 0
        self.warps: list[Warp] = []
        self.last: Warp | None = None


class Oracle:
    def __init__(self, card: Card, code: list[Code], paths: list[list[list[int]]], resident: int, ctas: int, offset: int):
        self.card, self.code, self.paths, self.ctas, self.offset = card, code, paths, ctas, offset
        self.parts = [Part() for _ in range(4)]
        self.port = 0
        self.l2 = 0.0
        self.started = 0
        self.ends = [0] * ctas
        self.left = ctas
        for slot in range(min(resident, ctas)):
            self.start(slot, slot * offset)

    def start(self, slot: int, time: int) -> None:
        cta = Cta(self.started, slot)
        paths = self.paths[self.started % len(self.paths)]
        self.started += 1
        for number, path in enumerate(paths):
            warp = Warp(path, time + number * (self.offset % 4), cta, number)
            cta.warps.append(warp)
            part = number % 4 if len(paths) % 4 == 0 else (number + slot * len(paths)) % 4
            self.parts[part].warps.append(warp)

    def run(self) -> int:
        time = 0
        while self.left:
            for part in self.parts:
                self.turn(part, time)
            time += 1
            if time > 2_000_000:
                raise RuntimeError("it does not end")
        return time

    def turn(self, part: Part, time: int) -> None:
        part.xu_places = [until for until in part.xu_places if until > time]
        part.memory_places = [until for until in part.memory_places if until > time]
        able = [warp for warp in part.warps if self.may_issue(part, warp, time)]
        if not able:
            return
        youngest = max(able, key=lambda warp: (warp.cta.number, warp.number))
        warp = part.last if part.last in able else youngest
        part.last = warp
        self.issue(part, warp, time)

    def may_issue(self, part: Part, warp: Warp, time: int) -> bool:
        if time < warp.start or time < warp.not_before or warp.waits:
            return False
        code = self.code[warp.path[warp.at]]
        warp.outstanding = [one for one in warp.outstanding if one[1] > time]
        if any(code.wait >> counter & 1 for counter, _ in warp.outstanding):
            return False
        base = code.opcode.split(".")[0]
        if base == "DEPBAR":
            allowed = int(code.operands.split(",")[1], 16)
            return sum(done > time for done in warp.groups) <= allowed
        if code.opcode in MEMORY:
            return len(part.memory_places) < QUEUE
        if base == "MUFU":
            return len(part.xu_places) < XU_QUEUE
        if base == "IMAD":
            return max(part.free["heavy"], part.free["fma"]) <= time
        pipe = {"HMMA": "tensor", "FFMA": "fma", "IADD3": "alu", "LOP3": "alu"}.get(base)
        return pipe is None or part.free[pipe] <= time

    @staticmethod
    def hold(part: Part, pipe: str, time: int, interval: float) -> None:
        free = part.free[pipe]
        part.free[pipe] = (free if time - free < 1 else time) + interval

    def issue(self, part: Part, warp: Warp, time: int) -> None:
        code = self.code[warp.path[warp.at]]
        base = code.opcode.split(".")[0]
        result, sources = time + 1, time + 1
        if code.opcode in MEMORY:
            result, sources = self.memory(part, warp, code, time)
        elif base == "MUFU":
            begin = max(time, math.ceil(part.free["xu"]))
            part.free["xu"] = begin + 8
            part.xu_places.append(begin + 8)
            result, sources = begin + 22, begin + 6
        elif base == "HMMA":
            self.hold(part, "tensor", time, self.card.tensor / (2 if ".1688." in code.opcode else 1))
        elif base == "FFMA":
            self.hold(part, "fma", time, self.card.fma)
        elif base == "IMAD":
            self.hold(part, "heavy", time, 2)
            self.hold(part, "fma", time, min(2, self.card.fma))
        elif base in ("IADD3", "LOP3"):
            self.hold(part, "alu", time, self.card.add)
        elif base == "S2R":
            result = time + 25
        elif base == "LDC":
            result = time + 29
        elif base == "LDGDEPBAR":
            result = max([warp.pending, time + 4, *warp.groups[-1:]])
            warp.groups.append(result)
        warp.outstanding += [(k, when) for k, when in ((code.write, result), (code.read, sources)) if k < 6]
        warp.not_before = time + max(code.stall, 2 if code.yields else 1)
        warp.at += 1
        if base == "BAR":
            warp.waits = True
            warp.cta.arrived.append(warp)
            self.release(warp.cta, time)
        if warp.at == len(warp.path):
            self.end(part, warp, time)

    def memory(self, part: Part, warp: Warp, code: Code, time: int) -> tuple[int, int]:
        wavefronts, latency, sources, l2_bytes = MEMORY[code.opcode]
        begin = max(time, part.local, self.port)
        part.local = begin + 2
        self.port = begin + wavefronts
        part.memory_places.append(begin + 1)
        if latency is None:
            self.l2 = max(self.l2, begin) + l2_bytes / self.card.l2_bytes
            result = math.ceil(self.l2) + self.card.global_latency
        else:
            result = begin + latency + (0 if code.opcode == "LDL" else wavefronts - 1)
        if code.opcode.startswith("LDGSTS"):
            warp.pending = max(warp.pending, result)
        return result, begin + sources

    def release(self, cta: Cta, time: int) -> None:
        if not cta.arrived or len(cta.arrived) < len(cta.warps):
            return
        for warp in cta.arrived:
            warp.waits = False
            warp.not_before = max(warp.not_before, time + BARRIER)
        cta.arrived = []

    def end(self, part: Part, warp: Warp, time: int) -> None:
        part.warps.remove(warp)
        part.last = None
        cta = warp.cta
        cta.warps.remove(warp)
        if cta.warps:
            self.release(cta, time)
            return
        self.ends[cta.number] = time + 1
        self.left -= 1
        if self.started < self.ctas:
            self.start(cta.slot, time + CTA_GAP)
