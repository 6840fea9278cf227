"""Arrays of libraries other than torch and NumPy: what ``_C`` does not do itself.

On the CPU it reads them through DLPack and computes into NumPy's memory; here the result becomes an array of the
library that the inputs came from. On a GPU they take the way of torch's tensors, whose allocator and stream the call
needs.
"""

import sys
from collections.abc import Callable
from typing import Any

from . import _C

_DL_CPU = 1


class _Result:
    """A NumPy array that any library can take over through DLPack, bfloat16 too, which NumPy has no name for."""

    def __init__(self, array: Any, dtype: str) -> None:
        self._array = array
        self._dtype = dtype

    def __dlpack__(self, *, max_version: Any = None, **_: Any) -> Any:
        try:
            capsule = self._array.__dlpack__(max_version=max_version)
        except TypeError:  # before NumPy 2.1
            capsule = self._array.__dlpack__()
        return _C.as_bfloat16(capsule) if self._dtype == "bfloat16" else capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DL_CPU, 0


def _from_dlpack(like: Any) -> Callable[[Any], Any] | None:
    """How the library of an array takes over another's: by the array API standard, else what its package calls so."""
    if hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
    else:
        namespace = sys.modules.get(type(like).__module__.partition(".")[0])
    function: Callable[[Any], Any] | None = getattr(namespace, "from_dlpack", None)
    return function


def give_back(array: Any, dtype: str, like: Any) -> Any:
    """A result as the library of ``like`` has it, or as NumPy does if that library has no way to take it over.

    ``array`` is NumPy's; bfloat16 comes as uint16.
    """
    take_over = _from_dlpack(like)
    if take_over is not None:
        return take_over(_Result(array, dtype))
    if dtype != "bfloat16":
        return array
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("a bfloat16 result for NumPy needs the package ml_dtypes: pip install ml_dtypes") from error
    return array.view(ml_dtypes.bfloat16)


def _through_torch(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    torch: Any = sys.modules.get("torch")
    if torch is None or "flashmoe_science._torch" not in sys.modules:
        raise NotImplementedError(
            f"{name}() of arrays on a GPU needs torch, whose allocator and stream it uses, and torch is not loaded"
        )

    def taken(value: Any) -> Any:
        return torch.from_dlpack(value) if hasattr(value, "__dlpack__") else value

    def unchanged(value: Any) -> Any:
        return value

    returned = _from_dlpack(args[0]) or unchanged

    result = getattr(_C, name)(*map(taken, args), **{key: taken(value) for key, value in options.items()})
    if not isinstance(result, tuple):
        return returned(result) if options.get("out") is None else options["out"]
    first, lse = result
    return (returned(first) if options.get("out") is None else options["out"]), returned(lse)


def attention(*args: Any, **options: Any) -> Any:
    """Called by ``_C.attention`` for arrays on a GPU."""
    return _through_torch("attention", args, options)


def merge_states(*args: Any, **options: Any) -> Any:
    """Called by ``_C.merge_states`` for arrays on a GPU."""
    return _through_torch("merge_states", args, options)
