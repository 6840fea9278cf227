"""Variants of one kernel that differ in one known thing: the prediction orders them rightly, names the thing, and is
monotone in its dose.

    variants_test.py CUDADENT REPOSITORY     exit 0 when all hold; prints the table

The kernel is examples/attention_journey on tensor cores, on a grid that fills an L4. A variant is a point of its
tunables, or an edit of its source that adds work and changes nothing else; nobody looks at results here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

POINT = {
    "rows": 64, "splits": 1, "warps": 4, "combine": 0, "load_bytes": 16, "async": "true", "stages": 2, "layout": 2,
    "q_home": 2, "mma": "true", "exp_form": 2, "keys": 64,
}
# On 58 SMs with two CTAs each 116 CTAs are a wave; 928 are eight.
WORKLOADS = """\
lone = { B = 1, H = 1, S = 256 }
wave = { B = 1, H = 29, S = 256 }
tail = { B = 1, H = 30, S = 256 }
full = { B = 4, H = 58, S = 256 }
"""
SHARED = 'shared_bytes = "'
RESIDENT_2 = "max(49000, "  # bytes: two CTAs an SM, so that a variant changes nothing about that
IN_TAKE = "    score(scores, shared_q, k);\n"
IN_WALK = "    mine.take(shared_q, tile, tile + tile_bytes, min(end - first, keys));\n"
EXP = "return exp2_fast((score - level) * (scale * log2_of_e));"


@dataclass(frozen=True)
class Variant:
    name: str
    slower_than: str = "base"  # which other variant
    shows: frozenset[str] = frozenset()  # what grows most, of the pipes or of what warps wait for; empty: anything
    point: dict = field(default_factory=dict)
    edits: tuple[tuple[str, str, str], ...] = ()  # file, before, after
    workload: str = "full"
    least: float = 1.0  # times the cycles of the other


def names(*words: str) -> frozenset[str]:
    return frozenset(words)


def fmul(count: int) -> tuple[tuple[str, str, str], ...]:
    loop = (
        "    const float one = __int_as_float(0x3F800000 + (there >> 20));\n"
        f"#pragma unroll\n    for (int i = 0; i < {count}; ++i)\n"
        '      asm volatile("mul.f32 %0, %0, %1;" : "+f"(scores[i / 4 % key_tiles][i % 4]) : "f"(one));\n'
    )
    return (("attention.cu", IN_TAKE, IN_TAKE + loop),)


def logic(count: int) -> tuple[tuple[str, str, str], ...]:
    loop = (
        "    unsigned word[4] = {1u + there, 2u + there, 3u + there, 4u + there};\n"
        f"#pragma unroll\n    for (int i = 0; i < {count}; ++i)\n"
        '      asm volatile("min.u32 %0, %0, %1;" : "+r"(word[i % 4]) : "r"(lane_ + i));\n'
        "    if (word[0] + word[1] + word[2] + word[3] == 12345678u) scores[0][0] = 0.0f;\n"
    )
    return (("attention.cu", IN_TAKE, IN_TAKE + loop),)


def barriers(count: int) -> tuple[tuple[str, str, str], ...]:
    return (("attention.cu", IN_WALK, IN_WALK + '    asm volatile("bar.sync 0;" ::: "memory");\n' * count),)


def exps(count: int) -> tuple[tuple[str, str, str], ...]:
    more = "".join(f" + 1e-30f * exp2_fast((score - level) * {0.5 + i}f)" for i in range(count - 1))
    return (("tile.cuh", EXP, EXP[:-1] + more + ";"),)


def products(count: int) -> tuple[tuple[str, str, str], ...]:
    return (("attention.cu", "    weigh(scores, v);\n", "    weigh(scores, v);\n" * count),)


def padded(bytes_a_row: int) -> tuple[tuple[str, str, str], ...]:
    return (
        ("tile.cuh", "layout == Layout::padded ? 16 : 0", f"layout == Layout::padded ? {bytes_a_row} : 0"),
        ("cudadent.toml", "(128 + 16 * (layout == 1))", f"(128 + {bytes_a_row} * (layout == 1))"),
    )


def resident(shared_bytes: int) -> tuple[tuple[str, str, str], ...]:
    return (("cudadent.toml", SHARED + RESIDENT_2, f"{SHARED}max({shared_bytes}, "),)


PORT = names("shared memory and L1", "shared memory and special", "memory queue")
VARIANTS = (
    Variant("base"),
    # Bank conflicts, by dose: rows 16, 32, 64 bytes longer, or not longer at all.
    Variant("padded rows", slower_than="", point={"layout": 1}),
    Variant("2-way conflicts", "padded rows", PORT, {"layout": 1}, padded(32)),
    Variant("4-way conflicts", "2-way conflicts", PORT, {"layout": 1}, padded(64)),
    Variant("no swizzle: 8-way conflicts", "4-way conflicts", PORT, {"layout": 0}, least=1.2),
    Variant("32 more FMUL", "base", names("fma"), edits=fmul(32)),
    Variant("128 more FMUL", "32 more FMUL", names("fma"), edits=fmul(128)),
    Variant("512 more FMUL", "128 more FMUL", names("fma"), edits=fmul(512), least=1.1),
    Variant("64 more integer operations", "base", names("alu", "math pipe"), edits=logic(64)),
    Variant("256 more integer operations", "64 more integer operations", names("alu", "math pipe"), edits=logic(256)),
    Variant("exp twice", "base", names("xu"), edits=exps(2)),
    Variant("exp three times", "exp twice", names("xu"), edits=exps(3)),
    Variant("precise exp", "base", names("fma", "alu"), {"exp_form": 0}),
    Variant("4 more barriers", "base", names("barrier"), edits=barriers(4)),
    # Warps that have just met do not wait again: what 12 more barriers in a row cost is their own latency.
    Variant("16 more barriers", "4 more barriers", names("barrier", "fixed latency"), edits=barriers(16)),
    Variant("64 more barriers", "16 more barriers", names("barrier"), edits=barriers(64)),
    Variant("p v twice", "base", names("tensor"), edits=products(2)),
    Variant("p v three times", "p v twice", names("tensor"), edits=products(3), least=1.1),
    Variant("one stage", "base", names("asynchronous copy", "barrier", "global memory"), {"stages": 1}),
    Variant(
        "no overlap", "base", names("asynchronous copy", "barrier", "global memory"),
        edits=(("attention.cu", "(stage + stages - 1) % stages);\n      }\n      const",
                "(stage + stages - 1) % stages);\n        wait_for_copies<0>();\n      }\n      const"),),
    ),
    Variant("loads through registers", "one stage", names("global memory", "barrier"),
            {"stages": 1, "async": "false"}),
    Variant("loads of 4 bytes", "base", names("memory queue", "shared memory and L1", "alu"), {"load_bytes": 4}),
    Variant(
        "uncoalesced loads", "base", names("L2", "shared memory and L1", "asynchronous copy", "memory queue"),
        edits=(("tile.cuh", "row = i / pieces, byte = i % pieces", "row = i % Count, byte = i / Count"),),
    ),
    Variant("a spill", "base", names("memory queue", "L2", "shared memory and L1", "global memory", "issue"),
            edits=(("attention.cu", "__launch_bounds__(threads)\n", "__launch_bounds__(threads, 8)\n"),)),
    Variant("one CTA an SM", "base", edits=resident(98000), least=1.1),
    Variant("scalar instead of mma", "base", names("fma"), {"mma": "false", "warps": 2}, least=3),
    Variant("4 CTAs", slower_than="", workload="lone"),
    Variant("2 CTAs of twice the rows", "4 CTAs", point={"rows": 128, "warps": 8}, workload="lone"),
    Variant("116 CTAs, a wave", slower_than="", workload="wave"),
    Variant("120 CTAs", "116 CTAs, a wave", workload="tail", least=1.1),
)


@dataclass(frozen=True)
class Predicted:
    cycles: float
    busy: dict[str, float]  # cycles of a CTA's share, by pipe
    waits: dict[str, float]  # cycles of warps of a CTA, by reason
    limiter: str
    unmatched: float
    refusals: list[str]


def predict(cudadent: str, project: Path, variant: Variant) -> Predicted:
    for file, before, after in variant.edits:
        path = project / file
        text = path.read_text()
        assert text.count(before) == 1, f"{variant.name}: {before!r} stands {text.count(before)} times in {file}"
        path.write_text(text.replace(before, after))
    point = POINT | variant.point
    (project / "point.toml").write_text("".join(f"{name} = {value}\n" for name, value in point.items()))
    command = [cudadent, "predict", ".", "--device", "virtual:l4", "--workload", variant.workload, "--json"]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)
    if not ran.stdout.startswith("{") or "launches" not in ran.stdout:
        raise SystemExit(f"{variant.name}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    launch = json.loads(ran.stdout)["launches"][0]
    cycles = launch["cta_cycles"]["resident"]
    return Predicted(
        cycles=launch["cycles"],
        busy={name: use * cycles for name, use in launch["uses"].items() if name != "issue"},
        waits={name: spent for name, spent in launch["warp_cycles"].items() if name not in ("issue", "not selected")},
        limiter=launch["limiter"],
        unmatched=launch["unmatched_weight"],
        refusals=launch["refusals"],
    )


def grown_most(before: dict[str, float], after: dict[str, float]) -> str:
    return max(after, key=lambda name: after[name] - before.get(name, 0))


def prepare(repository: Path, to: Path) -> Path:
    for part in ("examples/attention_journey", "examples/cudadent/attention", "src/kernels"):
        shutil.copytree(repository / part, to / part, ignore=shutil.ignore_patterns(".cudadent"))
    project = to / "examples" / "attention_journey"
    file = project / "cudadent.toml"
    text = file.read_text()
    for before, after in ((SHARED, SHARED + RESIDENT_2), ('warps, rows))"', 'warps, rows)))"')):
        assert text.count(before) == 1
        text = text.replace(before, after)
    end = text.index("\n[thresholds]")
    file.write_text(text[:end] + WORKLOADS + text[end:])
    return project


def main() -> int:
    cudadent, repository = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
    found: dict[str, Predicted] = {}
    wrong = []
    print(f"{'variant':<28} {'cycles':>9}  {'against':<28} {'factor':>6}  pipe, wait that grew most")
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            now = found[variant.name] = predict(cudadent, prepare(repository, Path(folder)), variant)
        if now.refusals:
            wrong.append(f"{variant.name} is not predicted: {now.refusals}")
        if not variant.slower_than or variant.name == "base":
            print(f"{variant.name:<28} {now.cycles:>9.0f}")
            continue
        other = found[variant.slower_than]
        pipe, wait = grown_most(other.busy, now.busy), grown_most(other.waits, now.waits)
        factor = now.cycles / other.cycles
        against = f"{variant.slower_than:<28} {factor:>6.3f}"
        print(f"{variant.name:<28} {now.cycles:>9.0f}  {against}  {pipe}, {wait}", flush=True)
        if factor <= variant.least:
            wrong.append(f"{variant.name} takes {factor:.3f} of {variant.slower_than}")
        if variant.shows and not {pipe, wait} & variant.shows:
            wrong.append(f"{variant.name}: {pipe} and {wait} grew most, not {sorted(variant.shows)}")
    for what in wrong:
        print("FAILED:", what)
    print(f"{len(VARIANTS)} variants, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
