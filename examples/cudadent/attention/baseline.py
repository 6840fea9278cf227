"""What to beat: PyTorch's scaled_dot_product_attention on the CPU."""

from collections.abc import Callable

import numpy as np
import torch

torch.set_grad_enabled(False)


def make_sdpa(tensors: dict[str, np.ndarray], params: dict[str, float]) -> Callable[[], dict[str, torch.Tensor]]:
    """Everything that is not attention happens here, once; only the returned call is timed."""
    q, k, v = (torch.from_numpy(tensors[name]) for name in ("q", "k", "v"))
    causal = bool(params["causal"])
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return lambda: {"o": sdpa(q, k, v, is_causal=causal)}
