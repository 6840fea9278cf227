"""No timing before the answer is right."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .cells import Cell
from .implementation import Inputs, visible

# Rows per head checked against fp64; above this a cell is checked on rows spread over its whole length.
MAX_ORACLE_ROWS = 64
# The library may have at most this multiple of torch's own RMS error on any problem.
MAX_ERROR_RATIO = 2.0


@dataclass(frozen=True)
class Agreement:
    max_diff: float  # ours against torch, over the whole output
    rms_error: float  # ours against fp64
    baseline_rms_error: float  # torch against fp64
    problem: str  # empty when right

    @property
    def right(self) -> bool:
        return not self.problem


def oracle_rows(cell: Cell) -> torch.Tensor:
    """Query rows to check: all, or the first, the last and those spread between them."""
    if cell.q_len <= MAX_ORACLE_ROWS:
        return torch.arange(cell.q_len)
    return torch.linspace(0, cell.q_len - 1, MAX_ORACLE_ROWS).round().long()


def oracle(cell: Cell, inputs: Inputs, rows: torch.Tensor) -> torch.Tensor:
    """Attention in fp64 on the given query rows, with the mask aligned to the last key."""
    q = inputs.q[:, :, rows].double()
    k = inputs.k.double().repeat_interleave(cell.gqa_group, dim=1)
    v = inputs.v.double().repeat_interleave(cell.gqa_group, dim=1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(cell.head_dim)
    if inputs.bias is not None:
        scores += inputs.bias[:, :, rows].double()
    scores.masked_fill_(~visible(cell)[:, :, rows], -math.inf)
    if inputs.sinks is not None:
        sinks = inputs.sinks.double()[:, None, None].expand(*scores.shape[:3], 1)
        weights = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
    else:
        weights = torch.softmax(scores, dim=-1)
    in_sequence = rows[:, None] < torch.tensor([q_len for q_len, _ in cell.sequences])[:, None, None, None]
    return torch.where(in_sequence, weights @ v, 0.0)


def rms(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def compare(
    cell: Cell,
    inputs: Inputs,
    baseline: torch.Tensor,
    ours: torch.Tensor,
    max_error_ratio: float = MAX_ERROR_RATIO,
) -> Agreement:
    """Judge `ours` by torch's own error on the same inputs."""
    if ours.shape != baseline.shape:
        return Agreement(math.inf, math.inf, math.nan, f"shape {tuple(ours.shape)}, not {tuple(baseline.shape)}")
    rows = oracle_rows(cell)
    expected = oracle(cell, inputs, rows)
    difference = ours.float() - baseline.float()
    max_diff = float(difference.abs().max())
    rms_error = rms(ours[:, :, rows].double() - expected)
    baseline_errors = baseline[:, :, rows].double() - expected
    baseline_max_error = float(baseline_errors.abs().max())
    baseline_rms_error = rms(baseline_errors)
    # The smallest error worth naming: a rounding of the output, which is a weighted mean of V.
    rounding = torch.finfo(inputs.v.dtype).eps * float(inputs.v.float().abs().max())
    problem = ""
    if not math.isfinite(max_diff):
        problem = "NaN or infinity in the result"
    elif rms_error > max_error_ratio * max(baseline_rms_error, rounding / 16):
        problem = f"RMS error {rms_error:.2e} against fp64, torch has {baseline_rms_error:.2e}"
    elif rms(difference) > (1 + max_error_ratio) * max(baseline_rms_error, rounding / 16):
        problem = f"RMS difference to torch {rms(difference):.2e}, whose own error is {baseline_rms_error:.2e}"
    elif max_diff > 2 * max_error_ratio * max(baseline_max_error, rounding):
        problem = f"max_diff {max_diff:.2e} to torch, whose own largest error is {baseline_max_error:.2e}"
    return Agreement(max_diff, rms_error, baseline_rms_error, problem)
