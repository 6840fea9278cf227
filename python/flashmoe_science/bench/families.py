"""Whole models of transformers with "fms", "sdpa" and "eager" side by side: a table of model families.

    python -m flashmoe_science.bench.families [--check] [--json] [--only TEXT] [--rounds N] [--threads N]

Layers have the shapes of released models (head sizes, grouped heads, windows, sinks) and random weights; there are
few of them, and a small vocabulary, so that a table takes minutes. A cell is the time of the whole model: what
attention gains is diluted by everything else, as it is for its users. ``match`` says whether the logits of a padded
batch are as close to the model in float64 as those of "eager" are. With --check the exit code is 1 if a claim does
not hold: no cell behind sdpa (its upper bound below 1), and the figures of ``CLAIMS``; 4 if this machine has no AMX,
where "fms" is "sdpa".
"""

import argparse
import copy
import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers

from .. import hf, isa
from .intervals import Interval, ratio_interval

_COMMON: dict[str, Any] = {
    "vocab_size": 1024,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "max_position_embeddings": 4096,
}


def _config(kind: str, hidden: int, inner: int, heads: int, **options: Any) -> Any:
    sizes = {"hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": heads}
    return getattr(transformers, kind)(**{**_COMMON, **sizes, **options})


_ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"]}
_GEMMA3: dict[str, Any] = {
    "num_key_value_heads": 1,
    "head_dim": 256,
    "sliding_window": 512,
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}
FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: _config("LlamaConfig", 2048, 8192, 32, num_key_value_heads=8, head_dim=64),
    "qwen3": lambda: _config("Qwen3Config", 1024, 3072, 16, num_key_value_heads=8, head_dim=128),
    "gemma3-270m": lambda: _config("Gemma3TextConfig", 640, 2048, 4, **_GEMMA3),
    "gemma3-1b": lambda: _config("Gemma3TextConfig", 1152, 6912, 4, **_GEMMA3),
    "gpt-oss": lambda: _config(
        "GptOssConfig",
        2880,
        2880,
        64,
        num_key_value_heads=8,
        head_dim=64,
        sliding_window=128,
        num_local_experts=2,
        num_experts_per_tok=1,
        **_ALTERNATING,
    ),
    "bert": lambda: _config("BertConfig", 768, 3072, 12),
    "modernbert": lambda: _config(
        "ModernBertConfig",
        768,
        1152,
        12,
        local_attention=128,
        global_attn_every_n_layers=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
}
ENCODERS = ("bert", "modernbert")


class Cell(NamedTuple):
    family: str
    kind: str  # prefill, mixed (eight texts of 512 and less, padded) or decode
    length: int

    @property
    def name(self) -> str:
        return f"{self.family} {self.kind} {self.length}"


def all_cells() -> list[Cell]:
    cells = []
    for family in FAMILIES:
        cells += [Cell(family, "prefill", length) for length in (512, 1024, 2048)]
        cells.append(Cell(family, "mixed", 512) if family in ENCODERS else Cell(family, "decode", 64))
    return cells


class Claim(NamedTuple):
    cell: str
    peer: str
    at_least: float


CLAIMS = (
    Claim("gpt-oss prefill 1024", "eager", 3.0),
    Claim("gemma3-270m prefill 2048", "sdpa", 1.5),
    Claim("gemma3-1b prefill 2048", "sdpa", 1.5),  # missed: docs/benchmarks.md says why
    Claim("bert mixed 512", "sdpa", 1.25),
)
PEERS = ("sdpa", "eager")


def peers_of(family: str) -> tuple[str, ...]:
    """transformers has no "sdpa" for a model with attention sinks."""
    return ("eager",) if family == "gpt-oss" else PEERS


def make_model(family: str) -> Any:
    torch.manual_seed(11)
    kind = transformers.AutoModelForMaskedLM if family in ENCODERS else transformers.AutoModelForCausalLM
    experts = {"experts_implementation": "eager"} if family == "gpt-oss" else {}  # the other one knows no float64
    return kind.from_config(FAMILIES[family](), attn_implementation="eager", **experts).eval()


def make_batch(lengths: list[int], side: str) -> dict[str, Any]:
    longest = max(lengths)
    ids = torch.randint(3, 1024, (len(lengths), longest), generator=torch.Generator().manual_seed(5))
    keys, ends = torch.arange(longest), torch.tensor(lengths)[:, None]
    kept = keys < ends if side == "right" else keys >= longest - ends
    return {"input_ids": ids * kept, "attention_mask": kept.long()}


def matches(family: str, model: Any) -> bool:
    """Whether our RMS error is at most twice that of eager, or of one rounding; exact: each text alone in float64."""
    batch = make_batch([96, 61, 5], "right" if family in ENCODERS else "left")
    kept = batch["attention_mask"].bool()
    batch["position_ids"] = (kept.cumsum(-1) - 1).clamp(0)
    narrow = copy.deepcopy(model).bfloat16()
    wide = copy.deepcopy(narrow).double()
    sequences = zip(batch["input_ids"], kept, strict=True)
    exact = torch.cat([wide(ids[rows][None]).logits[0] for ids, rows in sequences])
    results = []
    for implementation in (hf.KEY, "eager"):
        narrow.set_attn_implementation(implementation)
        results.append(narrow(**batch).logits[kept].double())
    ours, *others = ((x - exact).square().mean().sqrt().item() for x in (*results, exact.bfloat16().double()))
    return bool(ours <= 2 * max(others))


def make_call(cell: Cell, model: Any) -> Callable[[], Any]:
    if cell.kind == "mixed":
        batch = make_batch([512, 400, 300, 220, 150, 90, 60, 30], "right")
        return lambda: model(**batch)
    if cell.kind == "prefill":
        ids = torch.randint(3, 1024, (1, cell.length), generator=torch.Generator().manual_seed(5))
        return lambda: model(ids)
    prompt = torch.randint(3, 1024, (1, 512), generator=torch.Generator().manual_seed(5))

    def decode() -> None:
        """The steps after the prompt; the prompt itself is not counted by the caller's clock."""
        cache = transformers.DynamicCache(config=model.config)
        model(prompt, past_key_values=cache, logits_to_keep=1)
        begin = time.perf_counter()
        for _ in range(cell.length):
            model(prompt[:, :1], past_key_values=cache)
        decode.seconds = time.perf_counter() - begin  # type: ignore[attr-defined]

    return decode


def seconds_of(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return getattr(call, "seconds", time.perf_counter() - begin)


def measure(cell: Cell, model: Any, rounds: int) -> dict[str, Any]:
    peers = peers_of(cell.family)
    order = [hf.KEY, *peers]
    seconds: dict[str, list[float]] = {one: [] for one in order}
    call = make_call(cell, model)
    for turn in range(rounds + 1):  # the first warms up
        for one in order if turn % 2 else order[::-1]:
            model.set_attn_implementation(one)
            taken = seconds_of(call)
            if turn > 0:
                seconds[one].append(taken)
    ratios = {
        peer: ratio_interval(
            [math.log(theirs / ours) for theirs, ours in zip(seconds[peer], seconds[hf.KEY], strict=True)]
        )
        for peer in peers
    }
    return {"cell": cell.name, "milliseconds": 1e3 * min(seconds[hf.KEY]), "ratios": ratios}


def shown(ratio: Interval) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def faults(rows: list[dict[str, Any]], unmatched: list[str], margin: float) -> list[str]:
    found = [f"{family}: the logits are not those of eager" for family in unmatched]
    for row in rows:
        ratio = row["ratios"].get("sdpa")
        if ratio is not None and ratio.high < margin:
            found.append(f"{row['cell']}: {shown(ratio)} times sdpa's speed")
    for claim in CLAIMS:
        for row in rows:
            if row["cell"] != claim.cell:
                continue
            ratio = row["ratios"][claim.peer]
            if ratio.high < claim.at_least * margin:
                found.append(f"{row['cell']}: {shown(ratio)} of {claim.peer}, claimed {claim.at_least}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a claim does not hold")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose name contains it")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--margin", type=float, default=1.0, help="of every claim, for a disturbed machine")
    options = parser.parse_args()
    if isa() != "amx":
        print(f'families: this machine has no AMX (ISA {isa()}), where "{hf.KEY}" answers by sdpa', file=sys.stderr)
        return 4
    torch.set_num_threads(options.threads)
    rows, unmatched = [], []
    print(f"| cell, bf16, {options.threads} threads | match | ms | times sdpa | times eager |")
    print("| --- | --- | --- | --- | --- |")
    with torch.no_grad():
        for family in FAMILIES:
            cells = [cell for cell in all_cells() if cell.family == family and options.only in cell.name]
            if not cells:
                continue
            model = make_model(family)
            is_match = matches(family, model)
            if not is_match:
                unmatched.append(family)
            model = model.bfloat16()
            for cell in cells:
                row = measure(cell, model, options.rounds)
                rows.append(row)
                ratios = " | ".join(shown(row["ratios"][peer]) if peer in row["ratios"] else "-" for peer in PEERS)
                print(
                    f"| {row['cell']} | {'yes' if is_match else 'NO'} | {row['milliseconds']:.1f} | {ratios} |",
                    flush=True,
                )
    if options.json:
        print(
            json.dumps(
                [{**row, "ratios": {p: dataclasses.asdict(r) for p, r in row["ratios"].items()}} for row in rows]
            )
        )
    found = faults(rows, unmatched, options.margin) if rows else ["no cell has that name"]
    for fault in found:
        print(f"families: {fault}", file=sys.stderr)
    return 1 if found and (options.check or not rows) else 0


if __name__ == "__main__":
    sys.exit(main())
