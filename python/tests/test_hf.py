"""attn_implementation="fms" in transformers: the answers of "eager" for six families of models, random weights."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from transformers import masking_utils

import flashmoe_science as fs
from flashmoe_science import hf
from formulas import assert_as_exact

SMALL: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 128,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "max_position_embeddings": 256,
}
GROUPED: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "head_dim": 32}
WINDOWED: dict[str, Any] = {**GROUPED, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
DECODERS: dict[str, Any] = {
    "llama": lambda: transformers.LlamaConfig(**GROUPED),
    "qwen3": lambda: transformers.Qwen3Config(**GROUPED),
    "gemma3": lambda: transformers.Gemma3TextConfig(**WINDOWED),
    "gpt-oss": lambda: transformers.GptOssConfig(**WINDOWED, num_local_experts=2, num_experts_per_tok=1),
}
ENCODERS: dict[str, Any] = {
    "bert": lambda: transformers.BertConfig(**SMALL),
    "modernbert": lambda: transformers.ModernBertConfig(
        **SMALL, local_attention=16, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2
    ),
}
ROWS, LENGTHS = 70, (70, 41, 1)


@pytest.fixture(autouse=True)
def no_other_warning() -> Iterator[None]:
    """What falls back says so, and says it once: a test must not miss it because of another."""
    hf._told.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=f'attn_implementation="{hf.KEY}" answers by')
        yield


def make_model(family: str) -> Any:
    torch.manual_seed(7)
    config = {**DECODERS, **ENCODERS}[family]()
    kind = transformers.AutoModelForCausalLM if family in DECODERS else transformers.AutoModelForMaskedLM
    experts = {"experts_implementation": "eager"} if family == "gpt-oss" else {}  # the other one knows no float64
    model = kind.from_config(config, attn_implementation="eager", **experts).eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model


def like(model: Any, implementation: str, dtype: Any = torch.float32) -> Any:
    other = copy.deepcopy(model).to(dtype)
    other.set_attn_implementation(implementation)
    return other


def make_batch(padding: str) -> dict[str, Any]:
    ids = torch.randint(3, 160, (len(LENGTHS), ROWS), generator=torch.Generator().manual_seed(3))
    if padding == "none":
        return {"input_ids": ids}
    keys, lengths = torch.arange(ROWS), torch.tensor(LENGTHS)[:, None]
    kept = keys < lengths if padding == "right" else keys >= ROWS - lengths
    positions = (kept.cumsum(-1) - 1).clamp(0)
    return {"input_ids": ids * kept, "attention_mask": kept.long(), "position_ids": positions}


def exact_rows(model: Any, batch: dict[str, Any]) -> Any:
    """The logits of each sequence alone and without padding, in float64."""
    wide, ids = like(model, "eager", torch.float64), batch["input_ids"]
    kept = batch.get("attention_mask", torch.ones_like(ids)).bool()
    return torch.cat([wide(one[rows][None]).logits[0] for one, rows in zip(ids, kept, strict=True)])


def real_rows(logits: Any, batch: dict[str, Any]) -> Any:
    return logits[batch["attention_mask"].bool()] if "attention_mask" in batch else logits.flatten(0, 1)


needs_amx = pytest.mark.skipif(fs.isa() != "amx", reason="without AMX half precision is answered by sdpa")


@pytest.mark.parametrize("family", [*DECODERS, *ENCODERS])
def test_fp32_logits_are_as_exact_as_those_of_eager(family: str) -> None:
    model, batch = make_model(family), make_batch("left")
    with torch.no_grad():
        exact = exact_rows(model, batch)
        theirs = real_rows(model(**batch).logits, batch)
        ours = real_rows(like(model, hf.KEY)(**batch).logits, batch)
    assert_as_exact(ours, theirs, exact)


@needs_amx
@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("family", [*DECODERS, *ENCODERS])
def test_bf16_logits_are_as_exact_as_those_of_eager(family: str, padding: str) -> None:
    model, batch = make_model(family).bfloat16(), make_batch(padding)
    with torch.no_grad():
        exact = exact_rows(model, batch)
        theirs = real_rows(model(**batch).logits, batch)
        ours = real_rows(like(model, hf.KEY, torch.bfloat16)(**batch).logits, batch)
    assert_as_exact(ours, theirs, exact)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", DECODERS)
def test_greedy_tokens_are_those_of_eager(family: str, cache: str) -> None:
    """In fp32: there a rounding does not choose another token."""
    model, batch = make_model(family), make_batch("left")
    batch.pop("position_ids")
    options = {"max_new_tokens": 12, "do_sample": False}
    expected = model.generate(**batch, **options)
    given = {} if cache == "dynamic" else {"cache_implementation": "static", "disable_compile": True}
    assert torch.equal(like(model, hf.KEY).generate(**batch, **options, **given), expected)


def test_the_padding_shows() -> None:
    """What an attention without a mask function would get wrong."""
    model, batch = make_model("llama"), make_batch("left")
    with torch.no_grad():
        ours = like(model, hf.KEY)(**batch).logits
        unmasked = like(model, hf.KEY)(batch["input_ids"]).logits
    assert (ours - unmasked)[1, -1].abs().max() > 1e-2


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["llama", "gpt-oss"])
def test_compiles(family: str) -> None:
    model = like(make_model(family), hf.KEY)
    batch = make_batch("left")
    with torch.no_grad():
        expected = real_rows(model(**batch, use_cache=False).logits, batch)
        compiled = torch.compile(model, backend="aot_eager")
        given = real_rows(compiled(**batch, use_cache=False).logits, batch)
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-4)


def test_a_compiled_step_takes_a_description() -> None:
    """As generate does with a static cache: the mask is made outside of the graph."""
    q = torch.randn(2, 4, 1, 32)
    k, v = torch.randn(2, 2, 2, 40, 32)
    module = torch.nn.Module()
    step = torch.compile(
        lambda *x: hf.attention_forward(module, *x)[0], backend="aot_eager", fullgraph=True, dynamic=False
    )
    with torch.no_grad():
        for seen in (17, 18):
            mask = torch.arange(40)[None] >= torch.tensor([[0], [5]])
            description = hf.mask(2, 1, 40, torch.tensor(seen - 1), attention_mask=mask)
            kept = (mask & (torch.arange(40) < seen))[:, None, None]
            expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=kept, enable_gqa=True)
            torch.testing.assert_close(step(q, k, v, description), expected.transpose(1, 2), rtol=0, atol=1e-5)


def test_descriptions_are_the_masks_of_sdpa() -> None:
    """Every kind of mask that is described, and one that is not, at every kind of offset."""
    functions = [
        masking_utils.causal_mask_function,
        masking_utils.bidirectional_mask_function,
        masking_utils.sliding_window_causal_mask_function(7),
        masking_utils.sliding_window_bidirectional_mask_function(4),
        masking_utils.or_masks(masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function),
    ]
    keys = torch.arange(30)
    paddings = [None, keys >= torch.tensor([[0], [11]]), keys < torch.tensor([[30], [8]]), (keys % 5 > 0).expand(2, 30)]
    q, k, v = torch.randn(2, 2, 12, 16), *torch.randn(2, 2, 2, 30, 16)
    described = 0
    for function in functions:
        for padding in paddings:
            for q_length, q_offset, kv_length, kv_offset in [
                (12, 0, 12, 0),
                (12, 0, 30, 0),
                (5, 9, 14, 0),
                (3, 20, 9, 14),
            ]:
                sizes = (2, q_length, kv_length, q_offset, kv_offset, function, padding)
                expected = masking_utils.sdpa_mask(*sizes, allow_is_causal_skip=False)
                given = hf.mask(*sizes, allow_is_causal_skip=False)
                if hf._is_description(given):
                    described += 1
                    assert torch.equal(hf._as_bool(given, q_length, kv_length), expected)
                rows = (q[:, :, :q_length], k[:, :, :kv_length], v[:, :, :kv_length])
                out = hf.attention_forward(torch.nn.Module(), *rows, given)[0].transpose(1, 2)
                wanted = torch.nn.functional.scaled_dot_product_attention(*rows, attn_mask=expected).nan_to_num()
                torch.testing.assert_close(out, wanted, rtol=0, atol=1e-5)
    assert described == 4 * 3 * 4


def test_what_is_not_ours_is_told_once() -> None:
    model, batch = like(make_model("llama"), hf.KEY), make_batch("left")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        logits = model(**batch).logits  # gradients
        model(**batch)
    told = [str(one.message) for one in caught if "answers by" in str(one.message)]
    assert told == ['attn_implementation="fms" answers by "sdpa": a gradient is recorded']
    with torch.no_grad():
        torch.testing.assert_close(logits, like(model, "sdpa")(**batch).logits, rtol=0, atol=0)
