"""Holds the model of src/predict against what others have measured and published.

    validate.py --program PREDICT_POINTS --cut-cubins CUT_CUBINS [--pipeline BUILD] [--write-docs] [--quick] [--rebase]

Prints the figures of docs/predict-validation.md and exits with 1 if one of those that must hold does not, or if the
model is not the frozen one: each figure is held against frozen.json. --rebase writes that file as the next version of
the model, which docs/predict.md then has to tell of. --write-docs writes the page and its picture. --quick: the checks
without a clock alone. --pipeline: the same points from a fresh build as well, through peers_host and the virtual GPU of
that build tree; what it says is shown, and bound by nothing. The first run downloads a wheel of 755 MB
(measured_programs.py says what stays of it).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from declared_paths import faults, tensor_flops
from fits import geometric_mean, tensor_pipe_cycles
from frozen import Figures, Frozen, moved, point_key, use_key
from judgement import EVENTS_CARD, MODEL, Facts, HeldOut, held_out, never_fitted, ratios, signs
from measured_programs import Programs, programs
from model import Model, kernel_name
from page import Fresh, Page, write
from pipeline import Pipeline, is_covered
from published import Card, Point, read_cards, read_points
from sass_steps import steps

DOCS = Path(__file__).resolve().parents[2] / "docs"
WITHIN_POINTS = 4.0  # of per cent, of a use that Nsight Compute measured
RATIO_MEDIAN = 0.15
HELD_OUT, HELD_OUT_EVENTS = 0.07, 0.10
CLOCK_SHARES = (0.60, 1.10)


@dataclass(frozen=True)
class Check:
    what: str
    figure: str
    bound: str
    holds: bool


@dataclass(frozen=True)
class Use:
    card: str
    kernel: str
    what: str  # "tensor", "issue"
    published: float  # per cent
    predicted: float
    source: str

    @property
    def holds(self) -> bool:
        return abs(self.predicted - self.published) <= WITHIN_POINTS


def path_faults(model: Model, files: Programs) -> list[str]:
    """Paths that their SASS does not have, or whose products are not those of attention."""
    found = []
    for (name, architecture), file in files.items():
        declared = model.declared[name]
        code = steps(file.read_text())
        for blocks in range(declared.paths[0][0], 7):
            found += [f"{architecture}: {fault}" for fault in faults(declared, code, blocks)]
            done, wanted = tensor_flops(declared, [step.full_opcode for step in code], blocks)
            if done != wanted:
                found.append(f"{architecture}: {name} with {blocks} blocks multiplies {done}, not {wanted}")
    return found


def steady_use(model: Model, name: str, card: Card, key_blocks: int) -> dict[str, float]:
    declared = model.declared[name]
    request = model.request(name, card, declared.resident_on(card.sass), [declared.groups(key_blocks)])
    answer: dict[str, float] = model.ask({**request, "steady": True})["steady"]
    return answer


def small_grid_use(model: Model, name: str, card: Card, key_blocks: int, ctas: int, sms: int) -> dict[str, float]:
    """Over the cycles in which an SM has work, when some SMs get one CTA more than the others."""
    declared = model.declared[name]
    few, more = divmod(ctas, sms)
    busy: dict[str, float] = {}
    cycles = 0.0
    for resident, count in ((few, sms - more), (few + 1, more)):
        if resident == 0 or count == 0:
            continue
        answer = model.ask(model.request(name, card, resident, [declared.groups(key_blocks)]))
        taken = answer["ctas"][0]["shared"] * count
        cycles += taken
        for pipe in ("tensor", "issue"):
            busy[pipe] = busy.get(pipe, 0.0) + taken * answer["use"][pipe]
    return {pipe: value / cycles for pipe, value in busy.items()}


def clock_free(model: Model, cards: dict[str, Card], facts: dict[str, Facts]) -> list[Use]:
    a100 = steady_use(model, "fa2_d128_full_sm80", cards["a100"], 64)
    rtx3090 = steady_use(model, "fa2_d128_full", cards["rtx3090"], 128)
    l4 = small_grid_use(model, "fmha_d64_full", cards["l4"], 8, 64, facts["l4"].sm_count)
    return [
        Use("a100", "fa2_d128_full_sm80", "tensor", 75.4, 100 * a100["tensor"], "ncu-lubits"),
        Use("rtx3090", "fa2_d128_full", "tensor", 94.4, 100 * rtx3090["tensor"], "ncu-lubits"),
        Use("l4", "fmha_d64_full", "tensor", 20.4, 100 * l4["tensor"], "ncu-l4"),
        Use("l4", "fmha_d64_full", "issue", 25.7, 100 * l4["issue"], "ncu-l4"),
    ]


def read_facts(model: Model, cards: dict[str, Card]) -> dict[str, Facts]:
    found = {}
    for name, card in cards.items():
        facts = model.ask({"gpu": card.gpu()})["facts"]
        found[name] = Facts(
            int(facts["sm_count"]), facts["boost_clock_mhz"], facts["mma_sync_clocks"], facts["dram_gb_per_s"]
        )
    return found


def clock_checks(result: HeldOut, facts: dict[str, Facts], cards: dict[str, Card]) -> list[Check]:
    found = []
    for card, clocks in result.clocks.items():
        share = statistics.fmean(clocks) / facts[card].boost_clock_mhz
        capped = cards[card].power_capped
        holds = share <= CLOCK_SHARES[1] and (share >= CLOCK_SHARES[0] or bool(capped))
        bound = "60 to 110 %" + (f", or less: {capped}" if capped else "")
        found.append(Check(f"fitted clock of {card} over its boost clock", f"{100 * share:.0f} %", bound, holds))
    return found


def checks_of(page: Page, facts: dict[str, Facts], cards: dict[str, Card]) -> list[Check]:
    found = [
        Check(f"{use.what} use of {use.kernel} on {use.card}", f"{use.predicted:.1f} %",
              f"{use.published} % within {WITHIN_POINTS:g} points", use.holds)
        for use in page.uses
    ]  # fmt: skip
    if page.held_out is None:
        return found
    for card in dict.fromkeys(ratio.point.card for ratio in page.ratios):
        median = statistics.median(abs(ratio.deviation) for ratio in page.ratios if ratio.point.card == card)
        found.append(
            Check(f"FlashAttention-2 over memory-efficient on {card}, median deviation", f"{100 * median:.1f} %",
                  f"at most {100 * RATIO_MEDIAN:.0f} %", median <= RATIO_MEDIAN)
        )  # fmt: skip
    others = [card for card in page.held_out.cards() if card != EVENTS_CARD]
    for what, group, bound in (("cards other than the L4", others, HELD_OUT), ("L4", [EVENTS_CARD], HELD_OUT_EVENTS)):
        error = page.held_out.mean(MODEL, group)
        found.append(
            Check(
                f"held out, mean error, {what}", f"{100 * error:.1f} %", f"at most {100 * bound:.0f} %", error <= bound
            )
        )
    return found + clock_checks(page.held_out, facts, cards)


def validated(model: Model, points: Sequence[Point], cards: dict[str, Card], quick: bool) -> tuple[Page, list[Check]]:
    facts = read_facts(model, cards)
    page = Page(clock_free(model, cards, facts))
    if quick:
        return page, checks_of(page, facts, cards)

    def cycles(point: Point) -> float:
        return model.cycles(point, cards[point.card])

    pipe: dict[tuple[str, str, int, int], float] = {}

    def pipe_cycles(point: Point) -> float:
        name, heads = kernel_name(point, cards[point.card]), point.batch * point.heads
        key = (point.card, name, point.seqlen, heads)
        if key not in pipe:
            own = facts[point.card]
            pipe[key] = tensor_pipe_cycles(model.declared[name], point.seqlen, heads, own.sm_count, own.mma_sync_clocks)
        return pipe[key]

    split = [point for point in points if point.use == "split"]
    used = [point for point in points if point.use != "excluded"]
    page.points, page.facts, page.cycles = list(points), facts, cycles
    page.held_out = held_out(split, facts, cycles, pipe_cycles)
    page.never_fitted = never_fitted(split, facts, cycles)
    page.ratios = ratios(points, cycles)
    page.signs = signs(used, cycles, same_shape=False)
    page.kernel_signs = signs(used, cycles, same_shape=True)
    return page, checks_of(page, facts, cards)


def through_the_pipeline(model: Model, page: Page, cards: dict[str, Card], build_tree: Path) -> list[Fresh]:
    """Held out on the rows that it covers, beside the measured program's declared path on the same rows."""
    points = [point for point in page.points if is_covered(point)]
    declared = page.cycles
    assert declared is not None
    with tempfile.TemporaryDirectory() as scratch:
        host, driver = build_tree / "tests" / "peers" / "peers_host", build_tree / "vgpu" / "libcuda.so.1"
        pipeline = Pipeline(model, host, driver, Path(scratch))

        def cycles(point: Point) -> float:
            return pipeline.cycles(point, cards[point.card])

        both = [held_out(points, page.facts, one, one) for one in (declared, cycles)]
        found = []
        for card in both[0].cards():
            rows = [point for point in points if point.card == card]
            ratio = geometric_mean(cycles(point) / declared(point) for point in rows)
            errors = [one.mean(MODEL, [card]) for one in both]
            found.append(Fresh(card, len(rows), errors[0], errors[1], ratio))
        return found


def figures_of(page: Page) -> Figures:
    """Everything that the model itself said: no clock and no fit is in it."""
    found = {use_key(use.kernel, use.card, use.what): use.predicted for use in page.uses}
    if page.cycles is not None:
        found |= {point_key(point): page.cycles(point) for point in page.points if point.use != "excluded"}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the built predict_points")
    parser.add_argument("--cut-cubins", required=True, help="the built cut_cubins")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rebase", action="store_true")
    parser.add_argument("--pipeline", type=Path, metavar="BUILD", help="a build tree with peers_host and vgpu")
    arguments = parser.parse_args()
    if arguments.quick and arguments.rebase:
        parser.error("--rebase writes all figures, --quick has but a few")
    if arguments.write_docs and not arguments.pipeline:
        parser.error("the page has a table of the --pipeline")
    files = programs(arguments.cut_cubins)
    with Model(arguments.program, files) as model:
        wrong = path_faults(model, files)
        page, checks = validated(model, read_points(), read_cards(), arguments.quick)
        now = figures_of(page)
        if arguments.pipeline:
            page.pipeline = through_the_pipeline(model, page, read_cards(), arguments.pipeline)
    for fault in wrong:
        print(f"declared path: {fault}")
    frozen = Frozen.read()
    if arguments.rebase:
        frozen = Frozen(frozen.version + 1, now)
        frozen.write()
    changes = moved(frozen.figures, now, whole=not arguments.quick)
    for change in changes:
        print(f"MOVED  {change}")
    for row in page.pipeline:
        print(f"shown  {row}")
    for check in checks:
        print(f"{'holds' if check.holds else 'FAILS'}  {check.what}: {check.figure} ({check.bound})")
    if arguments.write_docs and not arguments.quick:
        write(page, checks, DOCS)
    if changes:
        print(f"the model is not version {frozen.version}: run this with --rebase, and tell of it in docs/predict.md")
    return 0 if not wrong and not changes and all(check.holds for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
