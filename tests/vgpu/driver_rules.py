"""Rules of the CUDA driver API over a trace of calls (VGPU_TRACE, src/vgpu/driver/trace.hpp).

The rules are NVIDIA's documentation, kept here by books of their own: what was made, recorded, captured and given back
is followed from the calls alone, so that a virtual driver which forgives what a real one would not is found out.

    driver_rules.py TRACE ...              exit 1 when something is found
    driver_rules.py --run PROGRAM ...      the same of a program that is traced
    driver_rules.py --selftest             every rule on a trace that breaks it, and one that keeps them all
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# CUDA Driver API, Initialization: "Before any function from the driver API can be called, cuInit must be called".
# What tells errors, versions and addresses of functions may come before it.
BEFORE_INIT = frozenset(
    {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetExportTable"}
)
# CUDA C++ Programming Guide, Driver API: a context "must be attached to the calling thread" (be current) for calls that
# act in one. Those that name a device, a library or a context themselves need none.
NEEDS_CONTEXT = (
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHost",
    "cuMemcpy",
    "cuMemset",
    "cuMemGetInfo",
    "cuModuleLoad",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuModuleGetGlobal",
    "cuLaunch",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture",
    "cuEventCreate",
    "cuEventRecord",
    "cuCtxSynchronize",
    "cuCtxGetDevice",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuGraphInstantiate",
    "cuKernelGetFunction",
    "cuOccupancy",
)
# cuThreadExchangeStreamCaptureMode: a thread is "prohibited from potentially unsafe API calls" while it, or in global
# mode another thread, captures. Allocating is the manual's example of one; loading "might require context
# synchronization" (Programming Guide, Lazy Loading), and so may what gives either back.
UNSAFE_WHILE_CAPTURING = frozenset(
    {
        "cuMemAlloc",
        "cuMemAllocManaged",
        "cuMemAllocPitch",
        "cuMemFree",
        "cuMemAllocHost",
        "cuMemHostAlloc",
        "cuMemFreeHost",
        "cuMemHostRegister",
        "cuMemHostUnregister",
        "cuModuleLoad",
        "cuModuleLoadData",
        "cuModuleLoadDataEx",
        "cuModuleLoadFatBinary",
        "cuModuleUnload",
        "cuLibraryLoadData",
        "cuLibraryLoadFromFile",
        "cuLibraryUnload",
        "cuKernelGetFunction",
    }
)
# Programming Guide, Stream Capture, Prohibited and Unhandled Operations: "Synchronous APIs, such as cudaMemcpy(),
# enqueue work to the legacy stream and synchronize it before returning", and any "use of the legacy stream is invalid"
# while a stream that is not non-blocking is being captured.
SYNCHRONOUS = frozenset(
    {"cuMemcpy", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpy2D", "cuMemcpy3D"}
    | {f"cuMemsetD{bits}" for bits in (8, 16, 32)}
)
# "It is also invalid to query the execution status of or synchronize a broader handle which encompasses an active
# stream capture, such as a device or context handle".
BROADER = frozenset({"cuCtxSynchronize", "cuDevicePrimaryCtxReset", "cuCtxDestroy"})
# cuEventElapsedTime, CU_EVENT_DISABLE_TIMING
DISABLE_TIMING = 2
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
GLOBAL, RELAXED = 0, 2  # CUstreamCaptureMode
SPECIAL_STREAMS = frozenset({0, 1, 2})  # the default streams
# Answers that say that the program, not the machine, was wrong about a state.
ERRORS_OF_STATE = {
    3: "NOT_INITIALIZED",
    4: "DEINITIALIZED",
    201: "INVALID_CONTEXT",
    400: "INVALID_HANDLE",
    401: "ILLEGAL_STATE",
    708: "PRIMARY_CONTEXT_ACTIVE",
    709: "CONTEXT_IS_DESTROYED",
    900: "STREAM_CAPTURE_UNSUPPORTED",
    901: "STREAM_CAPTURE_INVALIDATED",
    902: "STREAM_CAPTURE_MERGE",
    903: "STREAM_CAPTURE_UNMATCHED",
    904: "STREAM_CAPTURE_UNJOINED",
    905: "STREAM_CAPTURE_ISOLATION",
    906: "STREAM_CAPTURE_IMPLICIT",
    907: "CAPTURED_EVENT",
    908: "STREAM_CAPTURE_WRONG_THREAD",
}
NOT_READY = 600

# Argument -> what it is a handle of. "function" may be a kernel: cuLaunchKernel takes either.
USES = {
    "stream": "stream",
    "event": "event",
    "begin": "event",
    "end": "event",
    "module": "module",
    "library": "library",
    "kernel": "kernel",
    "function": "function",
    "graph": "graph",
    "exec": "exec",
    "context": "context",
}
# Call -> argument that it makes
MAKES = {
    "cuStreamCreate": "stream",
    "cuStreamCreateWithPriority": "stream",
    "cuEventCreate": "event",
    "cuModuleLoad": "module",
    "cuModuleLoadData": "module",
    "cuModuleLoadDataEx": "module",
    "cuModuleLoadFatBinary": "module",
    "cuLibraryLoadData": "library",
    "cuLibraryLoadFromFile": "library",
    "cuStreamEndCapture": "graph",
    "cuGraphInstantiateWithFlags": "exec",
}
# Call -> argument that it makes, argument that this belongs to
DERIVES = {
    "cuModuleGetFunction": ("function", "module"),
    "cuLibraryGetKernel": ("kernel", "library"),
    "cuLibraryGetModule": ("module", "library"),
    "cuKernelGetFunction": ("function", "kernel"),
}
GIVES_BACK = {
    "cuStreamDestroy": "stream",
    "cuEventDestroy": "event",
    "cuModuleUnload": "module",
    "cuLibraryUnload": "library",
    "cuGraphExecDestroy": "exec",
    "cuGraphDestroy": "graph",
}
ELEMENT_BYTES = {"cuMemsetD8": 1, "cuMemsetD16": 2, "cuMemsetD32": 4}
# Libraries belong to no context.
CONTEXT_FREE = frozenset({"library", "kernel"})


@dataclass(frozen=True)
class Finding:
    rule: str
    process: int
    sequence: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: process {self.process}, call {self.sequence}: {self.text}"


@dataclass
class Thing:
    kind: str
    context: int
    flags: int = 0
    parent: tuple[str, int] | None = None
    # Of events
    stream: int | None = None
    recorded: int = 0  # 0: never; else the call that did
    complete: bool = False
    captured: bool = False


@dataclass
class Allocation:
    bytes: int
    context: int
    kind: str  # "memory", "host memory", "global"
    parent: tuple[str, int] | None = None


@dataclass
class Capture:
    thread: int
    mode: int
    context: int


def base_name(call: str) -> str:
    """The documented name: cuMemAlloc of cuMemAlloc_v2, cuLaunchKernel of cuLaunchKernel_ptsz."""
    for suffix in ("_ptsz", "_ptds", "_v2", "_v3", "_v4"):
        call = call.removesuffix(suffix)
    return call.removesuffix("_v2")


def number(value: Any) -> int:
    return int(value, 16) if isinstance(value, str) else int(value)


@dataclass
class Process:
    """The books of one process."""

    pid: int
    findings: list[Finding] = field(default_factory=list)
    initialised: bool = False
    stacks: dict[int, list[int]] = field(default_factory=dict)  # contexts by thread, the current one last
    retained: dict[int, int] = field(default_factory=dict)  # by device
    primaries: dict[int, int] = field(default_factory=dict)  # device -> context
    things: dict[tuple[str, int], Thing] = field(default_factory=dict)
    gone: set[tuple[str, int]] = field(default_factory=set)
    memory: dict[int, Allocation] = field(default_factory=dict)
    captures: dict[int, Capture] = field(default_factory=dict)  # by stream
    modes: dict[int, int] = field(default_factory=dict)  # of threads
    last: int = 0

    def find(self, rule: str, text: str) -> None:
        self.findings.append(Finding(rule, self.pid, self.last, text))

    def context(self, thread: int) -> int:
        stack = self.stacks.get(thread, [])
        return stack[-1] if stack else 0

    # Checks of one call, before its effects.

    def check_start(self, name: str) -> None:
        if not self.initialised and name not in BEFORE_INIT:
            self.find("initialised", f"{name} before cuInit")

    def check_context(self, name: str, thread: int) -> None:
        if name.startswith(NEEDS_CONTEXT) and self.context(thread) == 0:
            self.find("context", f"{name} without a current context")

    def check_handles(self, name: str, arguments: dict[str, Any]) -> None:
        made = {MAKES.get(name), DERIVES.get(name, (None,))[0]}
        if name in ("cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuCtxPopCurrent", "cuCtxGetCurrent"):
            made.add("context")
        for argument, kind in USES.items():
            if argument not in arguments or argument in made:
                continue
            handle = number(arguments[argument])
            if (kind == "stream" and handle in SPECIAL_STREAMS) or (kind == "context" and handle == 0):
                continue
            kinds = ("function", "kernel") if kind == "function" else (kind,)
            if not any((one, handle) in self.things for one in kinds):
                was = any((one, handle) in self.gone for one in kinds)
                self.find("handle", f"{name}: the {kind} {handle:#x} {'was given back' if was else 'was never made'}")

    def check_memory(self, name: str, arguments: dict[str, Any]) -> None:
        if name in ("cuMemFree", "cuMemFreeAsync"):
            address = number(arguments["address"])
            if address != 0 and (address not in self.memory or self.memory[address].kind != "memory"):
                self.find("memory", f"{name}: {address:#x} is not the beginning of a live allocation")
        if name == "cuMemFreeHost":
            address = number(arguments["host"])
            if address not in self.memory or self.memory[address].kind != "host memory":
                self.find("memory", f"{name}: {address:#x} is not the beginning of live host memory")
        count = arguments.get("bytes", 0)
        for memset, element in ELEMENT_BYTES.items():
            if name in (memset, memset + "Async"):
                count = arguments["count"] * element
        for argument in ("device_to", "device_from"):
            if argument not in arguments or count == 0:
                continue
            address = number(arguments[argument])
            if not any(at <= address and address + count <= at + one.bytes for at, one in self.memory.items()):
                self.find("memory", f"{name}: {count} bytes at {address:#x} are not within one live allocation")

    def check_capture(self, name: str, thread: int, arguments: dict[str, Any]) -> None:
        if not self.captures:
            return
        stream = number(arguments["stream"]) if "stream" in arguments else None
        if name in ("cuStreamSynchronize", "cuStreamQuery") and stream in self.captures:
            self.find("capture", f"{name} of a stream that is being captured")
        if name in ("cuEventSynchronize", "cuEventQuery"):
            event = self.things.get(("event", number(arguments["event"])))
            if event is not None and event.captured:
                self.find("capture", f"{name} of an event that was recorded inside a capture")
        here = [one for one in self.captures.values() if one.context == self.context(thread)]
        if name in BROADER and here:
            self.find("capture", f"{name} while a stream of the context is being captured")
        blocking = any(
            one.context == self.context(thread)
            and not (self.things.get(("stream", at), Thing("stream", 0)).flags & NON_BLOCKING)
            for at, one in self.captures.items()
        )
        if blocking and (name in SYNCHRONOUS or stream in (0, 1)):
            self.find("capture", f"{name} uses the legacy stream while a blocking stream is being captured")
        mode = self.modes.get(thread, GLOBAL)
        if name in UNSAFE_WHILE_CAPTURING and mode != RELAXED:
            own = any(one.thread == thread and one.mode != RELAXED for one in self.captures.values())
            others = mode == GLOBAL and any(
                one.thread != thread and one.mode == GLOBAL for one in self.captures.values()
            )
            if own or others:
                self.find("capture", f"{name} is unsafe while {'this' if own else 'another'} thread captures")

    def check_elapsed(self, name: str, arguments: dict[str, Any]) -> None:
        if name != "cuEventElapsedTime":
            return
        for argument in ("begin", "end"):
            event = self.things.get(("event", number(arguments[argument])))
            if event is None:
                continue  # a finding about handles
            if event.flags & DISABLE_TIMING:
                self.find("elapsed", f"{name}: the {argument} event was made without timing")
            elif event.recorded == 0:
                self.find("elapsed", f"{name}: the {argument} event was never recorded")
            elif not event.complete:
                self.find("elapsed", f"{name}: nobody has waited for the {argument} event")

    def check_result(self, name: str, result: int) -> None:
        if result in ERRORS_OF_STATE:
            self.find("state", f"{name} answered {ERRORS_OF_STATE[result]}")
        if result == NOT_READY and name == "cuEventElapsedTime":
            self.find("state", f"{name} answered NOT_READY")

    # Effects of a call that succeeded.

    def complete_stream(self, stream: int | None, until: int) -> None:
        """What was recorded in the stream (None: in any) up to that call has happened."""
        for thing in self.things.values():
            if thing.kind == "event" and 0 < thing.recorded <= until and stream in (None, thing.stream):
                thing.complete = True

    def make(self, kind: str, handle: int, thing: Thing) -> None:
        self.things[kind, handle] = thing
        self.gone.discard((kind, handle))

    def give_back(self, kind: str, handle: int) -> None:
        self.things.pop((kind, handle), None)
        self.gone.add((kind, handle))
        for key in [key for key, thing in self.things.items() if thing.parent == (kind, handle)]:
            self.give_back(*key)
        for at in [at for at, one in self.memory.items() if one.parent == (kind, handle)]:
            del self.memory[at]

    def end_context(self, context: int, how: str) -> None:
        """Whatever still lives in it is told, and is gone."""
        self.tell_leftovers(how, lambda owner: owner == context)
        for key in [key for key, one in self.things.items() if one.context == context and key[0] not in CONTEXT_FREE]:
            self.give_back(*key)
        for at in [at for at, one in self.memory.items() if one.context == context]:
            del self.memory[at]
        self.captures = {at: one for at, one in self.captures.items() if one.context != context}

    def tell_leftovers(self, when: str, is_owner: Any) -> None:
        left: dict[str, int] = {}
        for (kind, _), thing in self.things.items():
            if thing.parent is None and kind != "context" and is_owner(None if kind in CONTEXT_FREE else thing.context):
                left[kind] = left.get(kind, 0) + 1
        for one in self.memory.values():
            if one.parent is None and is_owner(one.context):
                left[one.kind] = left.get(one.kind, 0) + 1
        for kind, count in sorted(left.items()):
            self.find("given back", f"{count} x {kind} not given back before {when}")

    def apply(self, name: str, thread: int, arguments: dict[str, Any]) -> None:
        context = self.context(thread)
        stack = self.stacks.setdefault(thread, [])
        if name == "cuInit":
            self.initialised = True
        elif name in MAKES:
            kind = MAKES[name]
            self.make(kind, number(arguments[kind]), Thing(kind, context, flags=arguments.get("flags", 0)))
        elif name in DERIVES:
            kind, owner = DERIVES[name]
            self.make(kind, number(arguments[kind]), Thing(kind, context, parent=(owner, number(arguments[owner]))))
        elif name in GIVES_BACK:
            self.give_back(GIVES_BACK[name], number(arguments[GIVES_BACK[name]]))
        elif name.startswith(("cuMem", "cuModuleGetGlobal", "cuLibraryGetGlobal")):
            self.apply_memory(name, context, arguments)
        elif name.startswith(("cuCtx", "cuDevicePrimaryCtx")):
            self.apply_context(name, stack, arguments)
        elif name.startswith("cuEvent"):
            self.apply_event(name, arguments)
        if name == "cuStreamBeginCapture":
            self.captures[number(arguments["stream"])] = Capture(thread, arguments["mode"], context)
        elif name == "cuThreadExchangeStreamCaptureMode":
            self.modes[thread] = arguments["mode"]
        elif name in ("cuStreamSynchronize", "cuStreamQuery"):
            self.complete_stream(number(arguments["stream"]), self.last)
        elif name == "cuCtxSynchronize":
            self.complete_stream(None, self.last)

    def apply_memory(self, name: str, context: int, arguments: dict[str, Any]) -> None:
        if name in ("cuMemAlloc", "cuMemAllocManaged", "cuMemAllocAsync", "cuMemAllocFromPoolAsync"):
            self.memory[number(arguments["address"])] = Allocation(arguments["bytes"], context, "memory")
        elif name == "cuMemAllocPitch":
            size = number(arguments["pitch"]) * arguments["height"]
            self.memory[number(arguments["address"])] = Allocation(size, context, "memory")
        elif name in ("cuMemHostAlloc", "cuMemAllocHost"):
            self.memory[number(arguments["host"])] = Allocation(arguments["bytes"], context, "host memory")
        elif name in ("cuMemFree", "cuMemFreeAsync"):
            self.memory.pop(number(arguments["address"]), None)
        elif name == "cuMemFreeHost":
            self.memory.pop(number(arguments["host"]), None)
        elif name.endswith("GetGlobal") and "address" in arguments and "bytes" in arguments:
            owner = "module" if "module" in arguments else "library"
            self.memory[number(arguments["address"])] = Allocation(
                number(arguments["bytes"]), context, "global", (owner, number(arguments[owner]))
            )

    def apply_context(self, name: str, stack: list[int], arguments: dict[str, Any]) -> None:
        handle = number(arguments["context"]) if "context" in arguments else 0
        if name == "cuCtxPushCurrent":
            stack.append(handle)
        elif name == "cuCtxPopCurrent" and stack:
            stack.pop()
        elif name == "cuCtxSetCurrent":
            if stack:
                stack.pop()
            if handle != 0:
                stack.append(handle)
        elif name == "cuCtxCreate":
            self.make("context", handle, Thing("context", handle))
            stack.append(handle)
        elif name == "cuCtxDestroy":
            self.end_context(handle, "cuCtxDestroy")
            self.give_back("context", handle)
            if stack and stack[-1] == handle:
                stack.pop()
        elif name == "cuDevicePrimaryCtxRetain":
            device = arguments["device"]
            self.retained[device] = self.retained.get(device, 0) + 1
            self.primaries[device] = handle
            self.make("context", handle, Thing("context", handle))
        elif name == "cuDevicePrimaryCtxRelease":
            device = arguments["device"]
            self.retained[device] = self.retained.get(device, 0) - 1
            if self.retained[device] == 0 and device in self.primaries:
                self.end_context(self.primaries[device], "the last release of the primary context")
                self.give_back("context", self.primaries.pop(device))
        elif name == "cuDevicePrimaryCtxReset" and arguments["device"] in self.primaries:
            self.end_context(self.primaries[arguments["device"]], "cuDevicePrimaryCtxReset")

    def apply_event(self, name: str, arguments: dict[str, Any]) -> None:
        event = self.things.get(("event", number(arguments["event"]))) if "event" in arguments else None
        if event is None:
            return
        if name in ("cuEventRecord", "cuEventRecordWithFlags"):
            event.stream, event.recorded, event.complete = number(arguments["stream"]), self.last, False
            event.captured = event.stream in self.captures
            if event.captured:
                event.recorded = 0  # it happens inside a graph, and has no time
        elif name in ("cuEventSynchronize", "cuEventQuery") and event.recorded:
            self.complete_stream(event.stream, event.recorded)

    def call(self, line: dict[str, Any]) -> None:
        name, thread, arguments = base_name(line["call"]), line["thread"], line["arguments"]
        self.last = line["sequence"]
        self.check_start(name)
        self.check_context(name, thread)
        self.check_handles(name, arguments)
        self.check_memory(name, arguments)
        self.check_capture(name, thread, arguments)
        self.check_elapsed(name, arguments)
        self.check_result(name, line["result"])
        # Whatever it answers: a capture has ended.
        if name == "cuStreamEndCapture":
            self.captures.pop(number(arguments["stream"]), None)
        if line["result"] == 0:
            self.apply(name, thread, arguments)

    def end(self, kept: frozenset[str]) -> None:
        self.things = {key: thing for key, thing in self.things.items() if key[0] not in kept}
        self.memory = {at: one for at, one in self.memory.items() if one.kind not in kept}
        self.tell_leftovers("the process ended", lambda _: True)
        for device, count in sorted(self.retained.items()):
            if count > 0 and "primary context" not in kept:
                self.find("given back", f"{count} x primary context of device {device} retained when the process ended")


def findings_of(lines: Iterable[dict[str, Any]], kept: frozenset[str] = frozenset()) -> list[Finding]:
    processes: dict[int, Process] = {}
    for line in lines:
        processes.setdefault(line["process"], Process(line["process"])).call(line)
    for process in processes.values():
        process.end(kept)
    return [finding for process in processes.values() for finding in process.findings]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)


class Script:
    """A trace written by hand, for the selftest: script("cuMemAlloc_v2", address="0x100", bytes=64)."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __call__(self, call: str, result: int = 0, thread: int = 1, **arguments: Any) -> Script:
        self.lines.append(
            {
                "sequence": len(self.lines) + 1,
                "process": 1,
                "thread": thread,
                "call": call,
                "arguments": arguments,
                "result": result,
            }
        )
        return self


def begun() -> Script:
    return Script()("cuInit", flags=0)("cuDevicePrimaryCtxRetain", device=0, context="0xc")(
        "cuCtxPushCurrent_v2", context="0xc"
    )


def ended(script: Script) -> Script:
    return script("cuCtxPopCurrent_v2", context="0xc")("cuDevicePrimaryCtxRelease_v2", device=0)


def capturing(mode: int = 1, flags: int = NON_BLOCKING) -> Script:
    return begun()("cuStreamCreate", stream="0x51", flags=flags)("cuStreamBeginCapture_v2", stream="0x51", mode=mode)


def captured(script: Script) -> Script:
    script("cuStreamEndCapture", stream="0x51", graph="0x61")("cuGraphDestroy", graph="0x61")
    return ended(script("cuStreamDestroy_v2", stream="0x51"))


def with_events(script: Script, *calls: tuple[str, dict[str, Any]], flags: int = 0) -> Script:
    script("cuEventCreate", event="0xe1", flags=flags)("cuEventCreate", event="0xe2", flags=0)
    for call, arguments in calls:
        script(call, **arguments)
    script("cuEventElapsedTime", begin="0xe1", end="0xe2")
    return ended(script("cuEventDestroy_v2", event="0xe1")("cuEventDestroy_v2", event="0xe2"))


RECORD_BOTH: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cuEventRecord", {"event": "0xe1", "stream": "0x0"}),
    ("cuEventRecord", {"event": "0xe2", "stream": "0x0"}),
)
WAIT: tuple[str, dict[str, Any]] = ("cuEventSynchronize", {"event": "0xe2"})
ALLOCATE: dict[str, Any] = {"address": "0x1000", "bytes": 256}


def good() -> Script:
    """All of it, and nothing against a rule."""
    script = begun()("cuMemAlloc_v2", **ALLOCATE)("cuMemcpyHtoD_v2", device_to="0x1000", bytes=256)
    script("cuModuleLoadData", module="0x31")("cuModuleGetFunction", function="0x32", module="0x31", name="f")
    script("cuStreamCreate", stream="0x51", flags=NON_BLOCKING)("cuStreamBeginCapture_v2", stream="0x51", mode=1)
    script("cuLaunchKernel", function="0x32", stream="0x51")("cuStreamEndCapture", stream="0x51", graph="0x61")
    script("cuGraphInstantiateWithFlags", exec="0x71", graph="0x61", flags=0)("cuGraphDestroy", graph="0x61")
    script("cuEventCreate", event="0xe1", flags=0)("cuEventCreate", event="0xe2", flags=0)
    script("cuEventRecord", event="0xe1", stream="0x51")("cuGraphLaunch", exec="0x71", stream="0x51")
    script("cuEventRecord", event="0xe2", stream="0x51")("cuEventSynchronize", event="0xe2")
    script("cuEventElapsedTime", begin="0xe1", end="0xe2")
    script("cuLibraryLoadData", library="0x41")("cuLibraryGetKernel", kernel="0x42", library="0x41", name="k")
    script("cuLaunchKernel_ptsz", function="0x42", stream="0x2")("cuLibraryUnload", library="0x41")
    # Another thread may allocate beside a capture that is thread-local, and the same one in relaxed mode.
    script("cuStreamBeginCapture_v2", stream="0x51", mode=1)
    script("cuCtxPushCurrent_v2", thread=2, context="0xc")("cuMemAlloc_v2", thread=2, address="0x2000", bytes=8)
    script("cuThreadExchangeStreamCaptureMode", mode=2)("cuMemFree_v2", address="0x2000")
    script("cuThreadExchangeStreamCaptureMode", mode=0)("cuStreamEndCapture", stream="0x51", graph="0x62")
    script("cuGraphDestroy", graph="0x62")("cuCtxPopCurrent_v2", thread=2, context="0xc")
    script("cuGraphExecDestroy", exec="0x71")("cuEventDestroy_v2", event="0xe1")("cuEventDestroy_v2", event="0xe2")
    script("cuStreamDestroy_v2", stream="0x51")("cuModuleUnload", module="0x31")("cuMemFree_v2", address="0x1000")
    return ended(script)


def planted() -> dict[str, tuple[str, Script]]:
    """What is wrong -> the rule that has to say so, and the trace."""
    function: dict[str, Any] = {"function": "0x32", "module": "0x31", "name": "f"}
    host: dict[str, Any] = {"host": "0x9000", "bytes": 64}
    own = begun()("cuCtxCreate_v2", context="0xd", flags=0, device=0)("cuMemAlloc_v2", **ALLOCATE)
    relaxed = capturing(RELAXED)("cuEventCreate", event="0xe1", flags=0)
    relaxed("cuEventRecord", event="0xe1", stream="0x51")("cuEventQuery", event="0xe1")
    captured_time = capturing()("cuEventCreate", event="0xe1", flags=0)("cuEventCreate", event="0xe2", flags=0)
    captured_time("cuEventRecord", event="0xe1", stream="0x51")("cuEventRecord", event="0xe2", stream="0x51")
    captured_time("cuStreamEndCapture", stream="0x51", graph="0x61")("cuGraphDestroy", graph="0x61")
    captured_time("cuStreamSynchronize", stream="0x51")("cuEventElapsedTime", begin="0xe1", end="0xe2")
    captured_time("cuEventDestroy_v2", event="0xe1")("cuEventDestroy_v2", event="0xe2")
    return {
        "a call before cuInit": ("initialised", Script()("cuDeviceGetCount")),
        "memory without a context": (
            "context",
            Script()("cuInit", flags=0)("cuMemAlloc_v2", **ALLOCATE)("cuMemFree_v2", address="0x1000"),
        ),
        "a context current in another thread": (
            "context",
            ended(begun()("cuMemAlloc_v2", thread=2, **ALLOCATE)("cuMemFree_v2", address="0x1000")),
        ),
        "a stream after its end": (
            "handle",
            ended(
                begun()("cuStreamCreate", stream="0x51", flags=0)("cuStreamDestroy_v2", stream="0x51")(
                    "cuStreamSynchronize", stream="0x51"
                )
            ),
        ),
        "an event that nobody made": ("handle", ended(begun()("cuEventSynchronize", event="0xe1"))),
        "a function of an unloaded module": (
            "handle",
            ended(
                begun()("cuModuleLoadData", module="0x31")("cuModuleGetFunction", **function)(
                    "cuModuleUnload", module="0x31"
                )("cuLaunchKernel", function="0x32", stream="0x0")
            ),
        ),
        "a kernel of an unloaded library": (
            "handle",
            ended(
                begun()("cuLibraryLoadData", library="0x41")("cuLibraryGetKernel", kernel="0x42", library="0x41")(
                    "cuLibraryUnload", library="0x41"
                )("cuLaunchKernel", function="0x42", stream="0x0")
            ),
        ),
        "a graph after its end": (
            "handle",
            ended(
                capturing()("cuStreamEndCapture", stream="0x51", graph="0x61")("cuGraphDestroy", graph="0x61")(
                    "cuStreamDestroy_v2", stream="0x51"
                )("cuGraphInstantiateWithFlags", result=1, graph="0x61", flags=0)
            ),
        ),
        "a context after its last release": ("handle", ended(begun())("cuCtxSetCurrent", result=1, context="0xc")),
        "freed twice": (
            "memory",
            ended(
                begun()("cuMemAlloc_v2", **ALLOCATE)("cuMemFree_v2", address="0x1000")("cuMemFree_v2", address="0x1000")
            ),
        ),
        "freed in its middle": (
            "memory",
            ended(
                begun()("cuMemAlloc_v2", **ALLOCATE)("cuMemFree_v2", address="0x1010")("cuMemFree_v2", address="0x1000")
            ),
        ),
        "copied beyond the end": (
            "memory",
            ended(
                begun()("cuMemAlloc_v2", **ALLOCATE)("cuMemcpyHtoD_v2", device_to="0x1080", bytes=256)(
                    "cuMemFree_v2", address="0x1000"
                )
            ),
        ),
        "filled beyond the end": (
            "memory",
            ended(
                begun()("cuMemAlloc_v2", **ALLOCATE)("cuMemsetD32Async", device_to="0x1000", count=65, stream="0x0")(
                    "cuMemFree_v2", address="0x1000"
                )
            ),
        ),
        "read after free": (
            "memory",
            ended(
                begun()("cuMemAlloc_v2", **ALLOCATE)("cuMemFree_v2", address="0x1000")(
                    "cuMemcpyDtoH_v2", device_from="0x1000", bytes=4
                )
            ),
        ),
        "host memory freed twice": (
            "memory",
            ended(begun()("cuMemAllocHost_v2", **host)("cuMemFreeHost", host="0x9000")("cuMemFreeHost", host="0x9000")),
        ),
        "the captured stream waited for": ("capture", captured(capturing()("cuStreamSynchronize", stream="0x51"))),
        "a captured event asked, in relaxed mode too": (
            "capture",
            captured(relaxed("cuEventDestroy_v2", event="0xe1")),
        ),
        "the context waited for in a capture": ("capture", captured(capturing()("cuCtxSynchronize"))),
        "the legacy stream beside a blocking capture": (
            "capture",
            captured(capturing(flags=0)("cuLaunchHostFunc", stream="0x0")),
        ),
        "a synchronous copy beside a blocking capture": (
            "capture",
            captured(capturing(RELAXED, flags=0)("cuMemcpy", to="0x1", bytes=4)),
        ),
        "memory allocated in a capture": (
            "capture",
            captured(
                capturing()("cuMemAlloc_v2", **ALLOCATE)("cuThreadExchangeStreamCaptureMode", mode=2)(
                    "cuMemFree_v2", address="0x1000"
                )
            ),
        ),
        "a module loaded beside another thread's global capture": (
            "capture",
            captured(
                capturing(GLOBAL)("cuCtxPushCurrent_v2", thread=2, context="0xc")(
                    "cuLibraryLoadData", thread=2, library="0x41"
                )("cuThreadExchangeStreamCaptureMode", thread=2, mode=2)("cuLibraryUnload", thread=2, library="0x41")
            ),
        ),
        "the time between events that were never recorded": ("elapsed", with_events(begun(), RECORD_BOTH[0], WAIT)),
        "the time of an event that nobody waited for": ("elapsed", with_events(begun(), *RECORD_BOTH)),
        "the time up to an event behind the one waited for": (
            "elapsed",
            with_events(begun(), *RECORD_BOTH, ("cuEventSynchronize", {"event": "0xe1"})),
        ),
        "the time of an event that was recorded anew": (
            "elapsed",
            with_events(begun(), *RECORD_BOTH, WAIT, RECORD_BOTH[1]),
        ),
        "the time of an event without timing": (
            "elapsed",
            with_events(begun(), *RECORD_BOTH, WAIT, flags=DISABLE_TIMING),
        ),
        "the time of events inside a graph": (
            "elapsed",
            ended(captured_time("cuStreamDestroy_v2", stream="0x51")),
        ),
        "memory left in the primary context": ("given back", ended(begun()("cuMemAlloc_v2", **ALLOCATE))),
        "memory left in a context of one's own": (
            "given back",
            ended(own("cuCtxDestroy_v2", context="0xd")),
        ),
        "a stream left at the reset": (
            "given back",
            ended(begun()("cuStreamCreate", stream="0x51", flags=0)("cuDevicePrimaryCtxReset_v2", device=0)),
        ),
        "a library left at the end": ("given back", ended(begun()("cuLibraryLoadData", library="0x41"))),
        "a primary context retained at the end": ("given back", begun()),
        "an answer about a state": ("state", ended(begun()("cuStreamQuery", result=400, stream="0x0"))),
        "an elapsed time that was not ready": (
            "state",
            not_ready(),
        ),
    }


def not_ready() -> Script:
    script = begun()("cuEventCreate", event="0xe1", flags=0)
    script("cuEventRecord", event="0xe1", stream="0x0")("cuEventSynchronize", event="0xe1")
    script("cuEventElapsedTime", result=NOT_READY, begin="0xe1", end="0xe1")
    return ended(script("cuEventDestroy_v2", event="0xe1"))


def selftest() -> int:
    wrong = [f"the good trace: {finding}" for finding in findings_of(good().lines)]
    cases = planted()
    for what, (rule, script) in cases.items():
        found = findings_of(script.lines)
        if {finding.rule for finding in found} != {rule}:
            wrong.append(f"{what}: wanted {rule} alone, found {[str(finding) for finding in found]}")
    for text in wrong:
        print(text)
    print(f"driver rules: {len(cases)} planted violations, {len(wrong)} not told as they should be")
    return 1 if wrong else 0


def traced(command: list[str]) -> list[dict[str, Any]]:
    """The calls of a program that runs on the virtual driver."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        subprocess.run(command, check=True, env={**os.environ, "VGPU_TRACE": str(trace)})
        return list(lines_of(trace))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--kept", action="append", default=[], help="a kind that the program keeps until it ends")
    parser.add_argument("--breaks", action="append", default=[], help="a rule that it breaks on purpose, and must")
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[], help="a program to trace: last of all flags")
    parser.add_argument("traces", nargs="*", type=Path)
    asked = parser.parse_args()
    if asked.selftest:
        return selftest()
    sources = [list(lines_of(path)) for path in asked.traces] + ([traced(asked.run)] if asked.run else [])
    if not any(sources):
        parser.error("no calls: a trace, or --run and a program on the virtual driver")
    findings = [finding for lines in sources for finding in findings_of(lines, frozenset(asked.kept))]
    for finding in findings:
        print(finding)
    broken = {finding.rule for finding in findings}
    print(f"driver rules: {sum(map(len, sources))} calls, {len(findings)} findings; wanted: {asked.breaks or 'none'}")
    return 0 if broken == set(asked.breaks) else 1


if __name__ == "__main__":
    sys.exit(main())
