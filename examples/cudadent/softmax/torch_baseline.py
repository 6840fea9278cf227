"""What to beat on a card: PyTorch's own softmax, on tensors that lie there."""

from collections.abc import Callable

import torch


def make_softmax(tensors: dict[str, torch.Tensor], params: dict[str, float]) -> Callable[[], torch.Tensor]:
    """Looks the tensors up once; only the returned call is timed."""
    x = tensors["x"]
    return lambda: torch.softmax(x, dim=1)
