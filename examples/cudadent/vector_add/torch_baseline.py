"""What to beat on a card: PyTorch's addition, on tensors that lie there."""

from collections.abc import Callable

import torch


def make_add(tensors: dict[str, torch.Tensor], params: dict[str, float]) -> Callable[[], torch.Tensor]:
    """Looks the tensors up once; only the returned call is timed."""
    a, b, c = tensors["a"], tensors["b"], tensors["c"]
    return lambda: torch.add(a, b, out=c)
