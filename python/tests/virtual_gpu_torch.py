"""Run by test_virtual_gpu.py: the operators on CUDA tensors of the stock torch, on the virtual GPU, every check on."""

import torch

import flashmoe_science as fs


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64, on the host. q is (B, H, Sq, D), k and v (B, Hkv, Skv, D)."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.double() for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(scores.shape[-1] - scores.shape[-2] + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def captured() -> None:
    """A graph does the same again with other numbers."""
    q = torch.randn(1, 2, 40, 64, dtype=torch.float16)
    here = q.cuda()
    fs.attention(here, here, here)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = fs.attention(here, here, here)
    q = torch.randn_like(q)
    here.copy_(q)
    graph.replay()
    assert (o.cpu().double() - expected(q, q, q, False)[0]).abs().max() < 0.004


def main() -> None:
    assert "virtual" in torch.cuda.get_device_name(0)
    torch.manual_seed(5)
    for element, heads, kv_heads, queries, keys, dim, causal in (
        (torch.float16, 2, 2, 60, 60, 64, True),
        (torch.bfloat16, 4, 1, 33, 70, 128, False),
        (torch.float16, 8, 2, 1, 300, 128, True),
    ):
        q = torch.randn(1, heads, queries, dim).to(element)
        k, v = (torch.randn(1, kv_heads, keys, dim).to(element) for _ in range(2))
        with torch.cuda.stream(torch.cuda.Stream()):
            o, lse = fs.attention(q.cuda(), k.cuda(), v.cuda(), causal=causal, return_lse=True)
            torch.cuda.current_stream().synchronize()
        assert (o.device, o.dtype, o.shape) == (torch.device("cuda:0"), element, q.shape)
        wanted_o, wanted_lse = expected(q, k, v, causal)
        assert (o.cpu().double() - wanted_o).abs().max() < (0.004 if element == torch.float16 else 0.03)
        assert (lse.cpu().double() - wanted_lse).abs().max() < 1e-3

    # Older ones (seen: 2.11) begin a capture with a kernel of ATen, which is in the wheel as SASS only.
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15):
        captured()
    print("right")


if __name__ == "__main__":
    main()
