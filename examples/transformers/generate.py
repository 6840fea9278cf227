"""transformers with flashmoe_science's attention: two prompts of unequal length, padded at the left.

python examples/transformers/generate.py                          # a small model with random weights: no download
python examples/transformers/generate.py Qwen/Qwen3-0.6B          # one of yours
"""

import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

import flashmoe_science.hf  # noqa: F401  this registers attn_implementation="fms"

PROMPTS = ["Attention is", "The first programs for electronic computers were written by"]


def small_model() -> tuple[AutoModelForCausalLM, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        pad_token_id=0,
        eos_token_id=None,
    )
    ids = torch.randint(1, 512, (2, 200))
    kept = torch.arange(200) >= torch.tensor([[0], [150]])
    return AutoModelForCausalLM.from_config(config), {"input_ids": ids * kept, "attention_mask": kept.long()}


def named_model(name: str) -> tuple[AutoModelForCausalLM, dict[str, torch.Tensor]]:
    tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    return model, tokenizer(PROMPTS, return_tensors="pt", padding=True)


def main() -> int:
    model, batch = named_model(sys.argv[1]) if len(sys.argv) > 1 else small_model()
    tokens = {}
    for implementation in ("sdpa", "fms"):
        model.eval().set_attn_implementation(implementation)
        begin = time.perf_counter()
        tokens[implementation] = model.generate(**batch, max_new_tokens=32, do_sample=False)
        print(
            f"{implementation}: {time.perf_counter() - begin:.2f} s, ends in {tokens[implementation][:, -8:].tolist()}"
        )
    same = torch.equal(tokens["sdpa"], tokens["fms"])
    print("the same tokens" if same else "other tokens: in half precision a rounding may choose another one")
    return 0 if same or len(sys.argv) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
