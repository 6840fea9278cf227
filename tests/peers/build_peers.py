"""Compiles the peers' kernels with line information, each into a plug-in of the harness; for sm_89, some for others.

A plug-in is a shared library with the interface of peer.h: the peer's own host code around its kernels, without cudart
(the harness stands in for it) and without torch (stub headers, written here). Plug-ins are kept below
$FLASHMOE_CACHE/peers/build, keyed by everything that went into them; beside each lie kernel.ptx and
kernel.cubin.

    python3 build_peers.py NAME...          builds and prints the directory of each
    python3 build_peers.py --list           all names
    python3 build_peers.py --ptx DIR NAME   also copies the PTX to DIR/NAME.ptx
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from fetch_peers import PEERS, cache_directory, fetch

HERE = Path(__file__).resolve().parent


class Instance(NamedTuple):
    peer: str
    source: str
    defines: dict[str, object]
    sm: int = 89


def _flashinfer_prefill(head_dim: int, causal: bool, kv_steps: int, rows: int = 128, sm: int = 89) -> Instance:
    # FlashInfer's plan takes 128 query rows, 64 for at most so many queries; the KV steps are its own too, on a device
    # with 100 KB of shared memory an SM.
    defines = {"HEAD_DIM": head_dim, "CAUSAL": int(causal), "CTA_TILE_Q": rows, "NUM_MMA_KV": kv_steps}
    return Instance("flashinfer", "flashinfer_prefill.cu", defines, sm)


def _flash_attention(causal: bool, even: bool, head_dim: int = 64, split: bool = False, sm: int = 89) -> Instance:
    defines = {"HEAD_DIM": head_dim, "CAUSAL": int(causal), "SPLIT": int(split), "IsEvenMNConst": str(even).lower()}
    return Instance("flash-attn", "flash_attention.cu", {**defines, "SM": sm}, sm)


INSTANCES = {
    "fi_prefill_hd64": _flashinfer_prefill(64, False, 4),
    "fi_prefill_hd64_causal": _flashinfer_prefill(64, True, 4),
    "fi_prefill_hd128": _flashinfer_prefill(128, False, 2),
    "fi_prefill_hd128_causal": _flashinfer_prefill(128, True, 2),
    "fi_prefill_hd64_q64": _flashinfer_prefill(64, False, 8, 64),
    "fi_prefill_hd64_causal_q64": _flashinfer_prefill(64, True, 8, 64),
    "fi_prefill_hd128_q64": _flashinfer_prefill(128, False, 4, 64),
    "fi_prefill_hd128_causal_q64": _flashinfer_prefill(128, True, 4, 64),
    "fi_prefill_hd128_q16": _flashinfer_prefill(128, False, 1, 16),
    "fi_decode_hd128_g4": Instance("flashinfer", "flashinfer_decode.cu", {"HEAD_DIM": 128, "GROUP_SIZE": 4}),
    "fa2_fwd_hd64": _flash_attention(causal=False, even=True),
    "fa2_fwd_hd64_uneven": _flash_attention(causal=False, even=False),
    "fa2_fwd_hd64_causal": _flash_attention(causal=True, even=True),
    "fa2_fwd_hd64_causal_uneven": _flash_attention(causal=True, even=False),
    "fa2_split_hd64": _flash_attention(causal=False, even=False, split=True),
    "fa2_fwd_hd128": _flash_attention(causal=False, even=True, head_dim=128),
    "fa2_fwd_hd128_uneven": _flash_attention(causal=False, even=False, head_dim=128),
    "fa2_fwd_hd128_causal": _flash_attention(causal=True, even=True, head_dim=128),
    "fa2_fwd_hd128_causal_uneven": _flash_attention(causal=True, even=False, head_dim=128),
    "fa2_split_hd128": _flash_attention(causal=False, even=False, head_dim=128, split=True),
}
# What only predictions ask for. bench/peers/predict_map.py: long sequences of few heads, and the kernels for an A100;
# tests/predict/pipeline.py: FlashAttention-2 for the architectures of the cards on which it was measured.
for _head_dim in (64, 128):
    for _causal in (False, True):
        _mask = "_causal" if _causal else ""
        _name = f"hd{_head_dim}{_mask}"
        INSTANCES[f"fa2_fwd_{_name}_sm86"] = _flash_attention(_causal, True, _head_dim, sm=86)
        for _sm, _suffix in ((89, ""), (80, "_sm80")):
            INSTANCES[f"fa2_split_{_name}_even{_suffix}"] = _flash_attention(_causal, True, _head_dim, True, _sm)
            if _sm == 89:
                continue
            INSTANCES[f"fa2_fwd_{_name}{_suffix}"] = _flash_attention(_causal, True, _head_dim, sm=_sm)
            INSTANCES[f"fa2_fwd_{_name}_uneven{_suffix}"] = _flash_attention(_causal, False, _head_dim, sm=_sm)
            # Of 164 KB of shared memory a tile takes as many KV steps as its registers allow.
            INSTANCES[f"fi_prefill_{_name}{_suffix}"] = _flashinfer_prefill(_head_dim, _causal, 4, sm=_sm)
            INSTANCES[f"fi_prefill_{_name}_q64{_suffix}"] = _flashinfer_prefill(_head_dim, _causal, 8, 64, _sm)

for _causal in (False, True):
    _name = f"hd256{'_causal' if _causal else ''}"
    INSTANCES[f"fi_prefill_{_name}_q64"] = _flashinfer_prefill(256, _causal, 1, 64)
    INSTANCES[f"fa2_fwd_{_name}"] = _flash_attention(_causal, True, 256)
    INSTANCES[f"fa2_fwd_{_name}_uneven"] = _flash_attention(_causal, False, 256)
    INSTANCES[f"fa2_split_{_name}_even"] = _flash_attention(_causal, True, 256, True)

# What FlashAttention-2 wants of torch: the state of the random generator (dropout is off) and error checks.
STUBS = {
    "ATen/cuda/CUDAGeneratorImpl.h": """\
#pragma once
#include <cstdint>
namespace at {
struct PhiloxCudaState {
  union Payload {
    uint64_t val;
    int64_t* ptr;
  };
  Payload seed_{0};
  Payload offset_{0};
  uint32_t offset_intragraph_ = 0;
  bool captured_ = false;
};
}  // namespace at
""",
    "ATen/cuda/detail/UnpackRaw.cuh": """\
#pragma once
#include <tuple>
#include <ATen/cuda/CUDAGeneratorImpl.h>
namespace at::cuda::philox {
__host__ __device__ inline std::tuple<uint64_t, uint64_t> unpack(at::PhiloxCudaState state) {
  return std::make_tuple(state.seed_.val, state.offset_.val);
}
}  // namespace at::cuda::philox
""",
    "c10/cuda/CUDAException.h": """\
#pragma once
#include <stdexcept>
#include <cuda_runtime.h>
#define C10_CUDA_CHECK(call)                                                                          \\
  do {                                                                                                \\
    const cudaError_t peer_status = (call);                                                           \\
    if (peer_status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(peer_status));        \\
  } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
""",
}

DEVICE_FLAGS = ["-std=c++17", "-O3", "-use_fast_math", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-DNDEBUG"]
PLUGIN_FLAGS = ["-lineinfo", "-cudart=none", "-shared", "-Xcompiler=-fPIC"]
PEER_FLAGS = {
    "flashinfer": [],
    "flash-attn": [f"-DFLASHATTENTION_DISABLE_{what}" for what in ("DROPOUT", "ALIBI", "UNEVEN_K", "SOFTCAP", "LOCAL")],
}
PEER_HEADERS = {"flashinfer": [HERE / "flashinfer_common.cuh"], "flash-attn": []}


def find_nvcc() -> str:
    candidates = [os.environ.get("CUDACXX"), shutil.which("nvcc")]
    candidates += [os.path.join(os.environ[v], "bin", "nvcc") for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ]
    for candidate in [*candidates, "/usr/local/cuda/bin/nvcc"]:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise SystemExit("build_peers: no nvcc on PATH, in CUDA_HOME/bin or in /usr/local/cuda/bin")


def include_directories(peer: str, root: Path) -> list[Path]:
    if peer == "flashinfer":
        data = root / "flashinfer" / "data"
        return [data / "cccl" / "libcudacxx" / "include", data / "include"]
    csrc = next(root.glob("flash_attn-*")) / "csrc"
    return [csrc / "flash_attn" / "src", csrc / "cutlass" / "include"]


def split_heuristic(root: Path) -> str:
    """FlashAttention-2 keeps it in the one file that needs all of torch: the function alone, as it stands."""
    text = (next(root.glob("flash_attn-*")) / "csrc" / "flash_attn" / "flash_api.cpp").read_text()
    start = text.index("inline int num_splits_heuristic(")
    return "#pragma once\n" + text[start : text.index("\n}\n", start) + 3]


def write_stubs(root: Path, directory: Path) -> None:
    for name, text in {**STUBS, "split_heuristic.h": split_heuristic(root)}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def build_key(name: str, nvcc: str) -> str:
    instance = INSTANCES[name]
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    settings = [instance, version, DEVICE_FLAGS, PLUGIN_FLAGS, PEER_FLAGS, PEERS[instance.peer], STUBS]
    digest = hashlib.sha256(repr(settings).encode())
    for file in [HERE / "peer.h", HERE / instance.source, *PEER_HEADERS[instance.peer]]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def compile_command(name: str, nvcc: str, stubs: Path) -> list[str]:
    """nvcc with all that the instance's source needs; what to make of it, and where, is still to be added."""
    instance = INSTANCES[name]
    root = fetch(instance.peer)
    includes = include_directories(instance.peer, root)
    if instance.peer == "flash-attn":
        write_stubs(root, stubs)
        includes.append(stubs)
    command = [nvcc, *DEVICE_FLAGS, *PEER_FLAGS[instance.peer], f"-I{HERE}"]
    command += [f"-I{path}" for path in includes]
    command += [f"-DPEER_{key}={value}" for key, value in instance.defines.items()]
    return [*command, str(HERE / instance.source)]


def compile_plugin(name: str, nvcc: str, target: Path) -> None:
    keep = target / "keep"
    keep.mkdir()
    command = compile_command(name, nvcc, target / "stubs")
    sm = INSTANCES[name].sm
    command += [
        f"-gencode=arch=compute_{sm},code=[sm_{sm},compute_{sm}]",
        *PLUGIN_FLAGS,
        "--keep",
        f"--keep-dir={keep}",
        "-o",
        str(target / "peer.so"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"build_peers: {name}: nvcc failed\n{done.stderr[-6000:]}")
    for suffix in ("ptx", "cubin"):
        (made,) = keep.glob(f"*.{suffix}")
        shutil.copy(made, target / f"kernel.{suffix}")
    shutil.rmtree(keep)


def build(name: str) -> Path:
    """The directory with peer.so and kernel.{ptx,cubin}; compiles them the first time."""
    nvcc = find_nvcc()
    root = cache_directory() / "build"
    root.mkdir(parents=True, exist_ok=True)
    target = root / f"{name}-{build_key(name, nvcc)}"
    if (target / "complete").exists():  # nobody waits for somebody else's compiler
        return target
    # One at a time: an instance of FlashAttention-2 takes more than 3 GB.
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            compile_plugin(name, nvcc, target)
            (target / "complete").touch()
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="compiles the peers' kernels into plug-ins of the harness")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print all names")
    parser.add_argument("--ptx", type=Path, metavar="DIR", help="copy the PTX there as NAME.ptx")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(INSTANCES))
        return
    for name in arguments.names:
        if name not in INSTANCES:
            sys.exit(f"build_peers: no instance {name}; there are {', '.join(INSTANCES)}")
        directory = build(name)
        print(name, directory)
        if arguments.ptx:
            arguments.ptx.mkdir(parents=True, exist_ok=True)
            shutil.copy(directory / "kernel.ptx", arguments.ptx / f"{name}.ptx")


if __name__ == "__main__":
    main()
