"""Is fms_plan_json JSON, with every field of the plan, wherever the caller lives?

    plan_json_test.py LIBRARY     exit 0: it is; 1: it is not, and why; 4: there is no locale to try it in

The fields are those of the ctypes mirror of flashmoe.h, whose sizes the library checks. The locale writes 0,5 for
0.5; it is made on the spot, because few machines have one.
"""

from __future__ import annotations

import ctypes
import json
import locale
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "accuracy"))
import fms_abi as abi

WORDS: dict[str, tuple[str, ...]] = {
    "device_kind": ("cpu", "cuda"),
    "cpu_isa": ("auto", "scalar", "avx2", "avx512", "amx"),
    "family": ("empty", "tile", "gemv", "amx", "cuda_forward"),
    "pack": ("none", "head", "block"),
    "dtype": ("?", "fp16", "bf16", "fp32"),
    "bias_dtype": ("?", "fp16", "bf16", "fp32"),
    "bias2_dtype": ("?", "fp16", "bf16", "fp32"),
}
FEATURES = ("lse", "bias", "sinks", "ragged_q", "ragged_kv", "kv_lengths", "paged_kv", "bias2")


def expected(struct: ctypes.Structure) -> dict[str, Any]:
    """What the JSON of a struct holds, field by field."""
    document: dict[str, Any] = {}
    for name, *_ in struct._fields_:
        value = getattr(struct, name)
        if isinstance(value, ctypes.Structure):
            document[name] = expected(value)
        elif name == "features":
            document[name] = [word for bit, word in enumerate(FEATURES) if value >> bit & 1]
        elif name == "fingerprint":
            document[name] = f"{value:016x}"
        else:
            document[name] = WORDS[name][value] if name in WORDS else value
    return document


def differences(got: Any, wanted: Any, where: str = "plan") -> list[str]:
    if isinstance(wanted, dict) and isinstance(got, dict):
        found = [f"{where}.{name} is missing" for name in wanted.keys() - got.keys()]
        found += [f"{where}.{name} is no field" for name in got.keys() - wanted.keys()]
        for name in wanted.keys() & got.keys():
            found += differences(got[name], wanted[name], f"{where}.{name}")
        return found
    if isinstance(wanted, float):
        # The digits give the same float again.
        return [] if ctypes.c_float(got).value == wanted else [f"{where} is {got!r}, not {wanted!r}"]
    return [] if got == wanted else [f"{where} is {got!r}, not {wanted!r}"]


def problem(**fields: Any) -> abi.Problem:
    """Every number in it is another one, so that none can stand in for its neighbour."""
    p = abi.Problem()
    p.struct_size = ctypes.sizeof(p)
    p.dtype, p.bias_dtype = abi.DTYPES["fp16"], abi.DTYPES["fp32"]
    p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len, p.head_dim = 2, 6, 3, 70, 90, 40
    p.value_dim = 40
    p.q, p.o = abi.Strides(100_000, 41, 300), abi.Strides(200_000, 42, 301)
    p.k, p.v = abi.Strides(300_000, 43, 302), abi.Strides(400_000, 44, 303)
    p.lse, p.bias = abi.Strides(1000, 1, 7), abi.BiasStrides(50_000, 8000, 101, 1)
    p.softmax_scale, p.softcap = 0.1, 12.345678
    p.window_left, p.window_right = 77, 5
    p.features = abi.LSE | abi.BIAS | abi.SINKS | abi.PAGED_KV | abi.KV_LENGTHS
    p.page_size, p.page_count, p.block_table_stride = 16, 51, 9
    for name, value in fields.items():
        setattr(p, name, value)
    return p


def problems() -> list[abi.Problem]:
    ragged = abi.LSE | abi.RAGGED_Q | abi.RAGGED_KV
    return [
        problem(),
        problem(features=ragged, total_q=130, total_kv=170, dtype=abi.DTYPES["bf16"], softmax_scale=-1e-20),
        problem(features=0, q_len=1, softmax_scale=1e30, dtype=abi.DTYPES["fp32"]),
        problem(features=0, batch=0, softmax_scale=3.4028e-38),
    ]


def complaints(library: abi.Library) -> list[str]:
    found: list[str] = []
    for index, one in enumerate(problems()):
        plan = library.plan(one, threads=2, kv_splits=3)
        text = library.json(plan)
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            found.append(f"problem {index} is no JSON: {error}: {text[:300]}")
            continue
        found += [f"problem {index}: {one}" for one in differences(document, expected(plan))]
    return found


def enter_comma_locale(folder: Path) -> bool:
    """Whether C's printf now writes a comma."""
    name = "de_DE.UTF-8"
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / name)], capture_output=True, text=True, timeout=120
    )
    os.environ["LOCPATH"] = str(folder)
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        print(f"localedef made no {name} (the Debian package locales has its sources): {made.stderr.strip()}")
        return False
    text = ctypes.create_string_buffer(16)
    ctypes.CDLL(None).snprintf(text, ctypes.c_size_t(16), b"%.1f", ctypes.c_double(0.5))
    return text.value == b"0,5"


def main() -> int:
    library = abi.Library(Path(sys.argv[1]))
    found = [f"C locale: {one}" for one in complaints(library)]
    with tempfile.TemporaryDirectory() as folder:
        if not enter_comma_locale(Path(folder)):
            return 4
        found += [f"comma locale: {one}" for one in complaints(library)]
    print("\n".join(found[:20]) if found else f"{2 * len(problems())} plans: every field, in both locales")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
