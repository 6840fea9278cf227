"""Whom to run against, by name. A peer that is not installed is named, not ignored."""

from __future__ import annotations

from .implementation import Implementation

BEFORE = "before"  # another build of our library, by its path
PEER_NAMES = ("torch", "onnxruntime", "openvino", "onednn", "vllm")


def make_peer(name: str, onednn_library: str | None = None) -> Implementation:
    """Raises NotAvailable with the remedy. Imports lazily: a peer nobody asked for need not be installed."""
    if name == "torch":
        from .torch_side import TorchSdpa

        return TorchSdpa()
    if name == "onnxruntime":
        from .onnxruntime_side import OnnxRuntime

        return OnnxRuntime()
    if name == "openvino":
        from .openvino_side import OpenVino

        return OpenVino()
    if name == "onednn":
        from .onednn_side import OneDnnDecode

        return OneDnnDecode(onednn_library)
    if name == "vllm":
        from .vllm_side import Vllm

        return Vllm()
    raise ValueError(f"no peer {name!r}")
