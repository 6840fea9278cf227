"""flashmoe_science as an attention of transformers: importing this module registers attention and mask as "fms".

    import flashmoe_science.hf
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, attn_implementation="fms")

What a model masks is described, not materialised: causal, sliding window, and of each sequence the first key and the
number of keys (left and right padding) go to the library as they are. Any other mask (packed sequences, image blocks,
one of the caller's, or a padding mask while torch.compile traces its making) goes there as the truth values that
transformers makes; one that is added to the scores, as a bias. Attention sinks and softcap are the library's own.

On the CPU without gradients. Everything else is answered by transformers' own "sdpa", and a warning says so once:
another device, gradients, dropout while training, and a machine on which the library is not ahead of SDPA (no AMX).
Attention weights (output_attentions) exist in none of these; ask for attn_implementation="eager".
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, masking_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from . import attention, isa

KEY = "fms"  # not a word with "flash" in it: transformers takes that for a kernel to be downloaded


class Pattern(NamedTuple):
    """Which keys a query sees, whatever the padding: -1 is unbounded, as in ``attention(window=...)``."""

    window_left: int
    window_right: int


class Padding(NamedTuple):
    """What a mask describes: the pattern, what aligns queries to keys, and [start, end) of each sequence's keys."""

    pattern: Pattern
    shift: int  # query i is aligned to key i + shift
    starts: list[int]
    ends: list[int]


# ---- masks ---------------------------------------------------------------------------------------------------------
# transformers builds a mask out of functions. The ones known here are told by their code, so that a window of any size
# is recognised and a function that only looks alike is not.


def _no_mask(*indices: Any) -> Any:
    raise NotImplementedError


_AND = masking_utils.and_masks(_no_mask).__code__
_WINDOW = masking_utils.sliding_window_overlay(1).__code__
_TWO_SIDED_WINDOW = masking_utils.sliding_window_bidirectional_overlay(1).__code__


def pattern_of(mask_function: Callable[..., Any]) -> Pattern | None:
    """None: a function that is not known here."""
    if mask_function is masking_utils.causal_mask_function:
        return Pattern(-1, 0)
    if mask_function is masking_utils.bidirectional_mask_function:
        return Pattern(-1, -1)
    code = getattr(mask_function, "__code__", None)
    enclosed = [cell.cell_contents for cell in getattr(mask_function, "__closure__", None) or ()]
    if code is _WINDOW:
        return Pattern(enclosed[0] - 1, -1)
    if code is _TWO_SIDED_WINDOW:
        return Pattern(enclosed[0], enclosed[0])
    if code is not _AND:
        return None
    parts = [pattern_of(part) for part in enclosed[0]]
    if None in parts:
        return None
    known = [part for part in parts if part is not None]

    def narrowest(sides: list[int]) -> int:
        return min((side for side in sides if side >= 0), default=-1)

    return Pattern(narrowest([part[0] for part in known]), narrowest([part[1] for part in known]))


def _kept_keys(attention_mask: Tensor, kv_length: int, kv_offset: int) -> tuple[list[int], list[int]] | None:
    """[start, end) of each sequence's keys; None if they are not neighbours."""
    padded = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    kept = padded[:, kv_offset : kv_offset + kv_length].bool()
    counts = kept.sum(-1)
    starts = kept.int().argmax(-1)
    ends = torch.where(counts > 0, kv_length - kept.flip(-1).int().argmax(-1), starts)
    return (starts.tolist(), ends.tolist()) if torch.equal(ends - starts, counts) else None


# A description is a tensor of four dimensions, so that transformers hands it on like any mask that is made before the
# model is called, and of a constant shape, so that a compiled decode step serves every length.
_FIELDS = 5  # start, end, shift, window_left, window_right


def _as_tensor(padding: Padding) -> Tensor:
    common = (padding.shift, *padding.pattern)
    rows = [(start, end, *common) for start, end in zip(padding.starts, padding.ends, strict=True)]
    return torch.tensor(rows, dtype=torch.int32).view(len(rows), 1, 1, _FIELDS)


def _is_description(mask: Tensor | None) -> bool:
    return mask is not None and mask.dtype == torch.int32 and mask.shape[1:] == (1, 1, _FIELDS)


def _read(description: Tensor) -> Padding:
    rows = description.view(-1, _FIELDS).tolist()
    _, _, shift, left, right = rows[0]
    return Padding(Pattern(left, right), shift, [row[0] for row in rows], [row[1] for row in rows])


def _as_bool(description: Tensor, q_length: int, kv_length: int) -> Tensor:
    """(batch, 1, q_length, kv_length), for those who need the mask itself; by operators that a graph can hold."""
    start, end, shift, left, right = (field[..., None] for field in description.unbind(-1))
    keys = torch.arange(kv_length)
    aligned = torch.arange(q_length)[:, None] + shift
    seen = (keys >= start) & (keys < end)
    return seen & ((left < 0) | (keys >= aligned - left)) & ((right < 0) | (keys <= aligned + right))


def _once(mask: Tensor, name: str, make: Callable[[], Tensor]) -> Tensor:
    """What is made of a mask, made once for all layers that get the same one."""
    if torch.compiler.is_compiling():
        return make()
    kept: Tensor | None = getattr(mask, name, None)
    if kept is None:
        kept = make()
        setattr(mask, name, kept)
    return kept


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = masking_utils.causal_mask_function,
    attention_mask: Tensor | None = None,
    device: torch.device | str = "cpu",
    **options: Any,
) -> Tensor | None:
    """transformers' mask interface: a description where there is one, else what "sdpa" makes."""
    pattern = None
    if torch.device(device).type == "cpu" and not torch.compiler.is_compiling():
        pattern = pattern_of(mask_function)
    kept: tuple[list[int], list[int]] | None = ([0] * batch_size, [kv_length] * batch_size)
    if pattern is not None and attention_mask is not None:
        kept = _kept_keys(attention_mask, kv_length, kv_offset)
    if pattern is None or kept is None:
        made: Tensor | None = masking_utils.sdpa_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            device=device,
            **options,
        )
        return made
    return _as_tensor(Padding(pattern, int(q_offset) - kv_offset, *kept))


# ---- attention -----------------------------------------------------------------------------------------------------


def _described_attention(
    q: Tensor, k: Tensor, v: Tensor, description: Tensor, sinks: Tensor | None, scale: float | None, softcap: float
) -> Tensor:
    """q, k, v: (batch, heads, rows, dim). The result has rows before heads."""
    padding = _read(description)
    q_length, kv_length = q.shape[2], k.shape[2]
    left, right = padding.pattern
    starts, ends = padding.starts, padding.ends
    options: dict[str, Any] = {"scale": scale, "softcap": softcap, "sinks": sinks, "window": (left, right)}
    if right >= 0:  # no query sees a key after the one that the last is aligned to
        kv_length = max(min(kv_length, q_length + padding.shift + right), 0)
        k, v = k[:, :, :kv_length], v[:, :, :kv_length]
        ends = [min(end, kv_length) for end in ends]
        starts = [min(start, end) for start, end in zip(starts, ends, strict=True)]
    has_lengths = any(end != kv_length for end in ends)
    if left >= 0 or right >= 0:
        if padding.shift == 0:
            options["top_left"] = True
        elif has_lengths or kv_length - q_length != padding.shift:
            return _masked_attention(q, k, v, _as_bool(description, q_length, kv_length), **options)
    if has_lengths:
        options["kv_lengths"] = torch.tensor(ends, dtype=torch.int32)
    if any(starts):
        options["kv_starts"] = torch.tensor(starts, dtype=torch.int32)
    return _attention(q, k, v, **options)


def _attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    result: Tensor = attention(*(x.transpose(1, 2) for x in (q, k, v)), layout="bshd", **options)
    return result


def _masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **options: Any) -> Tensor:
    """By a mask that says all about which keys are seen: truth values, or what is added to the scores."""
    options.pop("window", None)
    mask = mask[..., : k.shape[2]]
    if mask.dtype == torch.bool:
        return _attention(q, k, v, mask=mask, **options)
    if "bias" in options:
        options["bias2"] = options.pop("bias")
    return _attention(q, k, v, bias=mask, **options)


@torch.library.custom_op("flashmoe_science::described_attention", mutates_args=())
def _described_operator(
    q: Tensor, k: Tensor, v: Tensor, description: Tensor, sinks: Tensor | None, scale: float | None, softcap: float
) -> Tensor:
    """For graphs, which cannot look into the description."""
    return _described_attention(q, k, v, description, sinks, scale, softcap)


@_described_operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3]))


def _without_description(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    if mask is None or not _is_description(mask):
        return mask
    description, (q_length, kv_length) = mask, (query.shape[2], key.shape[2])
    return _once(
        description,
        f"_fms_bool_{q_length}_{kv_length}",
        lambda: _as_bool(description, q_length, kv_length).to(query.device),
    )


_told: set[str] = set()


def _tell_once(reason: str) -> None:
    if torch.compiler.is_compiling() or reason in _told:
        return
    _told.add(reason)
    warnings.warn(f'attn_implementation="{KEY}" answers by "sdpa": {reason}', stacklevel=4)


_ISA = isa()


def _why_not(query: Tensor, key: Tensor, value: Tensor, dropout: float, only_here: bool) -> str | None:
    """Why sdpa is asked instead; ``only_here``: it could not answer (sinks, softcap)."""
    if query.device.type != "cpu":
        return f"the tensors are on {query.device.type}"
    if only_here:
        return None
    if dropout > 0:
        return "dropout is the only thing that training adds to attention, and the library has none"
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return "a gradient is recorded"
    if query.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"the tensors are {query.dtype}"
    if query.dtype != torch.float32 and _ISA != "amx":
        return f"this machine has no AMX (the library's ISA is {_ISA}), and without it SDPA is the faster one"
    return None


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: (batch, heads, rows, dim) in, (batch, rows, heads, dim) out."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    only_here = bool(softcap) or s_aux is not None
    reason = _why_not(query, key, value, dropout, only_here)
    if reason is not None:
        _tell_once(reason)
        attention_mask = _without_description(attention_mask, query, key)
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout, scaling, is_causal, position_bias, **options
        )
    if only_here and dropout > 0:
        raise NotImplementedError("dropout with attention sinks or softcap: neither sdpa nor this library has it")
    common = {"scale": scaling, "softcap": softcap or 0.0, "sinks": s_aux}
    records = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (query, key, value, s_aux))
    if attention_mask is not None and _is_description(attention_mask):
        if position_bias is None and not records:
            compute = _described_operator if torch.compiler.is_compiling() else _described_attention
            return compute(query, key, value, attention_mask, s_aux, scaling, softcap or 0.0), None
        attention_mask = _without_description(attention_mask, query, key)
    if position_bias is not None:
        common["bias"] = position_bias.to(query.dtype)
    if attention_mask is None:
        # As sdpa has it: without a mask the first query is aligned to the first key, and a single one sees all.
        causal = causal and query.shape[2] > 1
        is_square = query.shape[2] == key.shape[2]
        return _attention(query, key, value, causal=causal, top_left=causal and not is_square, **common), None
    mask = attention_mask
    if mask.dtype != torch.bool:
        mask = _once(mask, f"_fms_bias_{query.dtype}", lambda: attention_mask.to(query.dtype))
    return _masked_attention(query, key, value, mask, **common), None


AttentionInterface.register(KEY, attention_forward)
AttentionMaskInterface.register(KEY, mask)
