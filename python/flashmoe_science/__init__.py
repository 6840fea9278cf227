"""Exact attention on PyTorch tensors (CPU and CUDA), NumPy arrays and those of any library that has ``__dlpack__``.

``attention`` and ``merge_states`` are C functions that know all of them; with torch they are also differentiable and
compile (``flashmoe_science._torch``). Set ``FLASHMOE_SCIENCE_NO_TORCH=1`` to keep torch from being imported.
"""

import importlib.util
import os
import warnings
from pathlib import Path

from . import _openmp

_openmp.load_runtime()

from ._C import __version__, attention, isa, merge_states  # noqa: E402
from ._flash_attn import flash_attn_func, flash_attn_varlen_func  # noqa: E402
from ._plan import Plan, plan  # noqa: E402

__all__ = [
    "Plan",
    "__version__",
    "attention",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "get_include",
    "isa",
    "merge_states",
    "plan",
]


def get_include() -> str:
    """The folder of ``flashmoe/flashmoe.h`` and ``attention.hpp``; the library they belong to is beside it."""
    return str(Path(__file__).with_name("include"))


if os.environ.get("FLASHMOE_SCIENCE_NO_TORCH", "0") in ("", "0") and importlib.util.find_spec("torch") is not None:
    try:
        from . import _torch
    except (ImportError, OSError) as error:  # a torch that does not load is no reason to do without NumPy
        warnings.warn(f"flashmoe_science works without torch, which cannot be imported: {error}", stacklevel=2)
    else:
        _torch.register()
