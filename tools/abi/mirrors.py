"""Writes what Python says again of things that C++ has written once.

    mirrors.py ROOT            writes both
    mirrors.py ROOT --check    exit code 1 where a file is not what would be written

python/flashmoe_science/bench/abi.py   the structs and constants of include/flashmoe/flashmoe.h, for ctypes
python/flashmoe_science/_C.pyi         attention()'s overloads, of python/src/attention_arguments.def; the rest is kept
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HEADER = "include/flashmoe/flashmoe.h"
ARGUMENTS = "python/src/attention_arguments.def"
ABI = "python/flashmoe_science/bench/abi.py"
STUB = "python/flashmoe_science/_C.pyi"

# An enum is an int of C, and every pointer is one to ctypes.
_PLAIN = {
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
    "float": "c_float",
    "char": "c_char",
}


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def python_name(c_name: str) -> str:
    """fms_attention_problem: Problem; fms_bias_strides: BiasStrides."""
    words = c_name.removeprefix("fms_").removeprefix("attention_").split("_")
    return "".join(word.capitalize() for word in words)


def constants(header: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for body in re.findall(r"\benum\s*(?:\w+\s*)?\{(.*?)\}", header, flags=re.DOTALL):
        for entry in filter(None, map(str.strip, body.split(","))):
            parsed = re.fullmatch(r"FMS_(\w+)\s*=\s*(\d+)(?:u\s*<<\s*(\d+))?", entry)
            if parsed is None:
                raise SystemExit(f"{HEADER}: cannot read the constant {entry}")
            name, value, shift = parsed.groups()
            found.append((name, int(value) << int(shift or 0)))
    return found


def fields(body: str, enums: set[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        parsed = re.fullmatch(r"(?:const\s+)?(\w+)\s*(\*?)\s*(.*)", declaration, flags=re.DOTALL)
        if parsed is None:
            raise SystemExit(f"{HEADER}: cannot read the declaration {declaration}")
        c_type, pointer, names = parsed.groups()
        kind = _PLAIN.get(c_type) or ("c_int32" if c_type in enums else python_name(c_type))
        for declared in map(str.strip, names.split(",")):
            array = re.fullmatch(r"(\w+)\[(\d+)\]", declared)
            if array:
                found.append((array[1], f"{kind} * {array[2]}"))
            else:
                found.append((declared, "c_void_p" if pointer else kind))
    return found


def abi(header: str) -> str:
    header = without_comments(header)
    enums = set(re.findall(r"\btypedef\s+enum\s+(\w+)", header))
    lines = [
        f'"""Structs and constants of {HEADER}, which explains them. Written by tools/abi/mirrors.py."""',
        "",
        "from ctypes import Structure, c_char, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p",
        "",
        *(f"{name} = {value}" for name, value in constants(header)),
    ]
    for name, body in re.findall(r"\btypedef\s+struct\s+(\w+)\s*\{(.*?)\}\s*\w+\s*;", header, flags=re.DOTALL):
        lines += ["", "", f"class {python_name(name)}(Structure):", "    _fields_ = ["]
        lines += [f'        ("{field}", {kind}),' for field, kind in fields(body, enums)]
        lines.append("    ]")
    return "\n".join(lines) + "\n"


def parameters(arguments: str) -> list[tuple[str, str, str | None]]:
    """Name, type, default (None: required)."""
    found: list[tuple[str, str, str | None]] = []
    for kind, name, rest in re.findall(r"^FMS_(\w+)\(\w+, (\w+)(.*)\)$", arguments, flags=re.MULTILINE):
        if kind == "REQUIRED":
            found.append((name, "_Array", None))
        elif kind == "OPTION":
            stub, default = (text.replace("'", '"') for text in re.findall(r'"([^"]*)"', rest)[:2])
            found.append((name, stub, default))
        else:
            found.append((name, "_Array | None", "None"))
    return found


def overload(arguments: list[tuple[str, str, str | None]], return_lse: str, default: str, result: str) -> str:
    lines = ["@overload", "def attention("]
    for index, (name, kind, value) in enumerate(arguments):
        if value is not None and arguments[index - 1][2] is None:
            lines.append("    *,")
        if name == "return_lse":
            lines.append(f"    {name}: {return_lse}{default},")
        else:
            lines.append(f"    {name}: {kind}," if value is None else f"    {name}: {kind} = {value},")
    return "\n".join([*lines, f") -> {result}: ..."]) + "\n"


def stub(current: str, arguments: str) -> str:
    listed = parameters(arguments)
    overloads = "".join(
        overload(listed, *variant)
        for variant in (
            ("Literal[False]", " = False", "_Array"),
            ("Literal[True]", "", "tuple[_Array, _Array]"),
            ("bool", " = False", "Any"),
        )
    )
    before, rest = current.split("@overload\ndef attention(", 1)
    return before + overloads + "def merge_states(" + rest.split("\ndef merge_states(", 1)[1]


def main() -> int:
    root, is_check = Path(sys.argv[1]), "--check" in sys.argv[2:]
    texts = {
        ABI: abi((root / HEADER).read_text()),
        STUB: stub((root / STUB).read_text(), (root / ARGUMENTS).read_text()),
    }
    status = 0
    for name, text in texts.items():
        path = root / name
        if path.exists() and path.read_text() == text:
            continue
        if is_check:
            print(f"{name} is not what {HEADER} and {ARGUMENTS} say: run tools/abi/mirrors.py .", file=sys.stderr)
            status = 1
        else:
            path.write_text(text)
            print(f"wrote {name}")
    return status


if __name__ == "__main__":
    sys.exit(main())
