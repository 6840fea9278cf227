"""ATen's operators on CUDA tensors, computed on the CPU: a torch program runs on the virtual GPU, and its own kernels
(Triton's, those of extensions) are what is executed, checked and counted there.

    with cudadent.aten.AtenOnCpu():
        train()

    cudadent run --device virtual:l4 -- python -m cudadent.aten train.py --epochs 1

The kernels of ATen are in PyTorch's wheel as SASS, and the virtual GPU executes PTX. Inside the mode an operator's
CUDA tensors are copied to the host, the operator runs there, and what it made or wrote is copied back. Tensors stay
where the program put them. Nothing that ATen does is counted or checked, and its results are the CPU's, not a GPU's:
every operator that came this way is named once in the driver's log (VGPU_LOG), and counted in `operators`.

Operators of other namespaces (`torch.library`, `TORCH_LIBRARY`) run as they are, and so do views, allocations and
copies between tensors that lie alike.

Where a check of the virtual GPU is on, torch's caching allocator is off inside the mode: it hands out parts of large
blocks, in which an overrun reaches a neighbour and nobody sees it. A graph that allocates while it is captured needs
the cache: AtenOnCpu(cache=True).
"""

from __future__ import annotations

import functools
import hashlib
import os
import runpy
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import _tensor_str as printing
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from cudadent.strided_copy import copy_elements

# Allocating, and asking or telling about memory: no kernel.
WITHOUT_KERNEL = frozenset(
    f"aten::{name}"
    for name in (
        "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ set_ record_stream "
        "_local_scalar_dense is_pinned _pin_memory"
    ).split()
)
# What they write they do not read; memory that was never written is no mistake there.
ONLY_WRITES_SELF = frozenset(
    f"aten::{name}"
    for name in "copy_ fill_ zero_ normal_ uniform_ random_ exponential_ geometric_ cauchy_ log_normal_".split()
)
# CUDA and CPU tensors may meet here; elsewhere that is a mistake of the program, and stays one.
MIXES_DEVICES = frozenset(
    f"aten::{name}"
    for name in (
        "copy_ _to_copy index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put "
        "_pack_padded_sequence _ctc_loss tensor_split"
    ).split()
)
# Settings of torch that choose among kernels; the ones switched off have no counterpart on the CPU.
CHOICES: tuple[tuple[Callable[[], bool], Callable[[bool], None]], ...] = (
    (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
)


def _log(line: str) -> None:
    """To where the driver's own lines go."""
    place = os.environ.get("VGPU_LOG") or "stderr"
    if place == "stderr":
        print(f"cudadent: {line}", file=sys.stderr, flush=True)
    elif place != "off":
        with open(place, "a") as file:
            file.write(f"cudadent: {line}\n")


def _lies_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """A copy is one memcpy."""
    same = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
    same = same and a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg()
    return same and torch.ops.aten.is_non_overlapping_and_dense(a)


def _keeps_layout(x: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """What clone() and _to_copy() make of x has its type and lies as x does."""
    order = kwargs.get("memory_format")
    kept = order in (None, torch.preserve_format) or x.is_contiguous(memory_format=order)
    kept = kept and kwargs.get("dtype") in (None, x.dtype) and not x.is_conj() and not x.is_neg()
    return kept and torch.ops.aten.is_non_overlapping_and_dense(x)


def _needs_no_kernel(func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    name = func._schema.name
    if func.is_view or torch.Tag.inplace_view in func.tags or name in WITHOUT_KERNEL:
        return True
    if name == "aten::copy_":
        return isinstance(args[1], torch.Tensor) and _lies_alike(args[0], args[1])
    if name in ("aten::clone", "aten::_to_copy"):
        return _keeps_layout(args[0], kwargs)
    return name == "aten::zero_" and torch.ops.aten.is_non_overlapping_and_dense(args[0])


class _Call:
    """One operator's arguments as the CPU gets them, and the way back."""

    def __init__(self, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.func = func
        schema = func._schema
        self.asked: torch.device | None = None  # by an argument `device`
        self.device: torch.device | None = None  # of the CUDA tensors
        self.generator: torch.Generator | None = None
        self.storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}  # device's, host's
        self.pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by what the CPU gets: the program's, the CPU's
        self.written: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.meets_host = ""  # the shape of a CPU tensor that is more than a number
        named = {argument.name: argument for argument in schema.arguments}
        self.args = [self._down_argument(schema.arguments[i], value) for i, value in enumerate(args)]
        self.kwargs = {name: self._down_argument(named[name], value) for name, value in kwargs.items()}

    def _down_argument(self, argument: torch._C.Argument, value: Any) -> Any:
        writes = argument.alias_info is not None and argument.alias_info.is_write
        only_writes = writes and (argument.is_out or self.func._schema.name in ONLY_WRITES_SELF)

        def down(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return self._down(leaf, writes, only_writes)
            if isinstance(leaf, torch.device):
                self.asked = leaf
                return torch.device("cpu")
            if isinstance(leaf, torch.Generator) and leaf.device.type == "cuda":
                self.generator = leaf
                return None
            return leaf

        return tree_map(down, value)

    def _down(self, tensor: torch.Tensor, writes: bool, only_writes: bool) -> torch.Tensor:
        if not tensor.is_cuda:
            if tensor.dim() > 0:
                self.meets_host = str(list(tensor.shape))
            self.pairs[id(tensor)] = (tensor, tensor)  # a result that is this argument stays here
            return tensor
        self.device = self.device or tensor.device
        # Tensors that share memory share it on the host, too.
        storage = tensor.untyped_storage()
        _, host_storage = self.storages.setdefault(
            storage.data_ptr(), (storage, torch.UntypedStorage(storage.nbytes()))
        )
        host = torch.empty(0, dtype=tensor.dtype)
        host.set_(host_storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        if not only_writes:
            copy_elements(host, tensor)
        if writes:
            self.written.append((tensor, host))
        seen = host.conj() if tensor.is_conj() else host
        seen = torch._neg_view(seen) if tensor.is_neg() else seen
        self.pairs[id(seen)] = (tensor, seen)
        return seen

    def run(self) -> Any:
        name = self.func._schema.name
        if self.device is not None and self.meets_host and name not in MIXES_DEVICES:
            raise RuntimeError(
                f"Expected all tensors to be on the same device: {name} got one on {self.device} and one of shape "
                f"{self.meets_host} on the CPU"
            )
        with self._random_numbers():
            try:
                result = self.func(*self.args, **self.kwargs)
            except NotImplementedError as error:
                raise NotImplementedError(
                    f"{self.func.name()} has no kernel for the CPU, and that for CUDA is SASS, which the virtual GPU "
                    "does not execute (cudadent.aten)"
                ) from error
        for tensor, host in self.written:
            if tensor.shape != host.shape:  # an out= of another size
                tensor.resize_(host.shape)
            copy_elements(tensor, host)
        goes_up = self.asked is None or self.asked.type == "cuda"
        return tree_map(self._up, result) if goes_up else result

    def _up(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in self.pairs:
            return self.pairs[id(leaf)][0]
        for storage, host_storage in self.storages.values():
            if leaf.untyped_storage().data_ptr() == host_storage.data_ptr() != 0:  # a view of an argument
                view = torch.empty(0, dtype=leaf.dtype, device=self.device)
                return view.set_(storage, leaf.storage_offset(), leaf.shape, leaf.stride())
        leaf = leaf.resolve_conj().resolve_neg()
        tensor = torch.empty_like(leaf, device=self.asked or self.device)
        copy_elements(tensor, leaf)
        return tensor

    @contextmanager
    def _random_numbers(self) -> Iterator[None]:
        """The GPU's generator stays the one that is seeded, saved and advanced; the host's is lent for the call."""
        if torch.Tag.nondeterministic_seeded not in self.func.tags:
            yield
            return
        torch.cuda.init()
        device = self.asked or self.device
        index = device.index if device is not None and device.index is not None else torch.cuda.current_device()
        generator = self.generator or torch.cuda.default_generators[index]
        offset = generator.get_offset()
        generator.set_offset(offset + 4)  # its unit
        seed = hashlib.blake2b(f"{generator.initial_seed()} {offset}".encode(), digest_size=8).digest()
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(int.from_bytes(seed, "little"))
        try:
            yield
        finally:
            torch.default_generator.set_state(before)


_open = threading.local()  # .modes: of this thread, the innermost last


@functools.cache
def _print_from_the_cpu() -> None:
    """torch prints without any mode, and asks kernels which digits it needs."""
    print_elements: Callable[[torch.Tensor, int], str] = printing._tensor_str

    def elements(tensor: torch.Tensor, indent: int) -> str:
        if tensor.is_cuda and getattr(_open, "modes", None):
            with _open.modes[-1]:
                tensor = tensor.cpu()
        return print_elements(tensor, indent)

    printing._tensor_str = elements


class AtenOnCpu(TorchDispatchMode):
    """See the module. `operators` counts the calls of each operator that was computed on the CPU."""

    def __init__(self, *, cache: bool | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: Counter[str] = Counter()
        is_checked = os.environ.get("VGPU_CHECK", "none") not in ("", "none")
        self._cache = not is_checked if cache is None else cache
        self._before: list[list[bool]] = []

    def __enter__(self) -> AtenOnCpu:
        if not self._before and not self._cache:
            torch.cuda.init()
            torch.cuda.memory.caching_allocator_enable(False)
        self._before.append([get() for get, _ in CHOICES])
        for _, choose in CHOICES:
            choose(False)
        _print_from_the_cpu()
        super().__enter__()  # type: ignore[no-untyped-call]
        _open.modes = [*getattr(_open, "modes", []), self]
        return self

    def __exit__(self, *what: Any) -> None:
        _open.modes = _open.modes[:-1]
        super().__exit__(*what)  # type: ignore[no-untyped-call]
        for (_, choose), value in zip(CHOICES, self._before.pop(), strict=True):
            choose(value)
        if not self._before and not self._cache:
            torch.cuda.memory.caching_allocator_enable(True)

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if any(kind.__torch_dispatch__ != torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # a subclass computes for itself, of tensors that come here
        if func.namespace != "aten" or not _is_on_gpu(args, kwargs):
            return func(*args, **kwargs)
        if func._can_decompose():  # comes whole in inference mode
            with self:
                return func.decompose(*args, **kwargs)
        if _needs_no_kernel(func, args, kwargs):
            return func(*args, **kwargs)
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"{func.name()} is computed on the CPU (cudadent.aten), so a graph cannot hold it: capture your own "
                "kernels alone, or run without the graph"
            )
        result = _Call(func, args, kwargs).run()
        if not self.operators[func.name()]:
            _log(f"{func.name()} is computed on the CPU: torch has it as SASS only")
        self.operators[func.name()] += 1
        return result


def _is_on_gpu(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    def is_on_gpu(leaf: Any) -> bool:
        if isinstance(leaf, torch.Tensor):
            return leaf.is_cuda
        return isinstance(leaf, torch.device) and leaf.type == "cuda"

    return any(is_on_gpu(leaf) for leaf in tree_leaves((args, kwargs)))


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m cudadent.aten PROGRAM.py [ARGUMENTS]")
    program = sys.argv[1]
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    with AtenOnCpu():
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
