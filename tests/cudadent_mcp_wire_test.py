"""`cudadent mcp` byte by byte, without a client: lines that are no message, too long or cut off; an input that ends in
mid-call and a server that is killed leave nothing behind; nothing but messages on stdout.

    cudadent_mcp_wire_test.py CUDADENT EXAMPLE     exit 0 when all hold
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MOST_LINE_BYTES = 1 << 20


def expect(holds: bool, what: str) -> None:
    if not holds:
        print(f"FAILED: {what}")
        raise SystemExit(1)


def request(number: int | str, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params | {"_meta": MODERN}}
    return json.dumps(message).encode() + b"\n"


def gate(number: int, project: str) -> bytes:
    """One that takes many seconds."""
    return request(number, "tools/call", name="gate", arguments={"project": project, "device": "cpu", "seed": 1})


class Wire:
    def __init__(self, cudadent: str, root: Path) -> None:
        self.process = subprocess.Popen(
            [cudadent, "mcp", str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        expect(line.endswith(b"\n"), f"no whole line: {line[:200]!r}")
        message = json.loads(line)
        expect(message["jsonrpc"] == "2.0", f"no message: {message}")
        return message

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        begin = time.monotonic()
        out, err = self.process.communicate(timeout=60)
        expect(time.monotonic() - begin < 10, "it goes on without its input")
        expect(err == b"", f"it writes {err[:300]!r}")
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]


def alive_below(pid: int) -> list[int]:
    """Children and theirs: supervisors and what they watch."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += [int(entry.name), *alive_below(int(entry.name))]
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(what: str, holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        expect(time.monotonic() < deadline, what)
        time.sleep(0.02)


def check_lines(cudadent: str, root: Path) -> None:
    wire = Wire(cudadent, root)
    for line, code in (
        (b"{\n", -32700),
        (b"\x00\xff\xfe\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[" + request(1, "tools/list").strip() + b"]\n", -32600),
        (b"x" * (3 * MOST_LINE_BYTES) + b"\n", -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n', -32602),
        (request(1, "nonesuch"), -32601),
        (request(1, "tools/call", name=["gate"]), -32602),
    ):
        wire.send(line)
        answer = wire.receive()
        expect(answer["error"]["code"] == code, f"{line[:60]!r}: {answer}")
    # Many in one write, and one in many writes.
    wire.send(b"\n \r\n" + request("a", "tools/list") + request("b", "server/discover"))
    expect([wire.receive()["id"], wire.receive()["id"]] == ["a", "b"], "two lines in one write")
    for byte in request("c", "resources/list"):
        wire.send(bytes([byte]))
    expect(wire.receive()["id"] == "c", "a line in many writes")
    # The last line may lack its end.
    wire.send(request("d", "tools/list").strip())
    code, rest = wire.end()
    expect(code == 0 and [answer["id"] for answer in rest] == ["d"], f"the last line: {code}, {rest}")


def check_cut_off(cudadent: str, root: Path) -> None:
    wire = Wire(cudadent, root)
    wire.send(b'{"jsonrpc": "2.0", "id": 1, "meth')
    code, rest = wire.end()
    expect(code == 0 and rest[0]["error"]["code"] == -32700, f"half a line: {code}, {rest}")


def check_end_in_mid_call(cudadent: str, root: Path) -> None:
    wire = Wire(cudadent, root)
    wire.send(gate(1, "kernel"))
    # The supervisor, the command, and what that has started.
    wait_until("the gate does not begin", lambda: len(alive_below(wire.process.pid)) >= 3)
    below = alive_below(wire.process.pid)
    code, rest = wire.end()
    expect(code == 0 and rest[-1]["id"] == 1 and rest[-1]["error"]["code"] == -32603, f"in mid-call: {code}, {rest}")
    wait_until(f"{below} live on after the input's end", lambda: not any(map(is_alive, below)))


def check_killed(cudadent: str, root: Path, number: signal.Signals) -> None:
    wire = Wire(cudadent, root)
    wire.send(gate(1, "kernel"))
    wait_until("the gate does not begin", lambda: len(alive_below(wire.process.pid)) >= 3)
    below = alive_below(wire.process.pid)
    wire.process.send_signal(number)
    wire.process.wait(timeout=60)
    wait_until(f"{below} live on after {number.name}", lambda: not any(map(is_alive, below)))
    wire.process.communicate()


def main(arguments: list[str]) -> int:
    cudadent, example = str(Path(arguments[0]).resolve()), arguments[1]
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_STATE_HOME"] = str(Path(directory, "state"))
        root = Path(directory, "root")
        shutil.copytree(example, root / "kernel", ignore=shutil.ignore_patterns(".cudadent"))
        check_lines(cudadent, root)
        check_cut_off(cudadent, root)
        check_end_in_mid_call(cudadent, root)
        for number in (signal.SIGTERM, signal.SIGKILL):
            check_killed(cudadent, root, number)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
