"""The package's path for CUDA tensors, on the virtual GPU and in processes of its own: the driver is chosen once.

FMS_VGPU names libvgpu.so; unless it is set, that of build/release. Where flashmoe-science-cuda is not installed there
are no kernels, and nothing is left to test here: test_cuda_images.py.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("numpy")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VGPU = Path(os.environ.get("FMS_VGPU", ROOT / "build/release/src/vgpu/libvgpu.so"))
DECODE = "(1, 32, 1, 128), (1, 8, 32768, 128), (1, 8, 32768, 128)"
HAS_KERNELS = "flashmoe-science-cuda" in {found.name for found in importlib.metadata.distributions()}
needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="flashmoe-science-cuda is not installed")
needs_virtual_gpu = pytest.mark.skipif(not (VGPU.exists() and HAS_KERNELS), reason=f"{VGPU} or kernels are missing")


def started(command: tuple[object, ...], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    # Nothing is compiled: what is shipped must do.
    settings = {"FLASHMOE_NVRTC": "/no/such/libnvrtc.so", **settings}
    return subprocess.run(
        [sys.executable, *map(str, command)], env={**os.environ, **settings}, capture_output=True, text=True
    )


def run(*command: str, driver: Path = VGPU, log: str = "off") -> subprocess.CompletedProcess[str]:
    settings = {
        "FLASHMOE_SCIENCE_NO_TORCH": "1",
        "FLASHMOE_DRIVER": str(driver),
        "FMS_VGPU": str(driver),
        "VGPU_DEVICE": "l4",
        "VGPU_LOG": log,
        "VGPU_LOG_CALLS": "0" if log == "off" else "1",
        "VGPU_PTXAS": "off",  # registers are not looked at
        "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT / "tests/accuracy"), os.environ.get("PYTHONPATH", "")]),
    }
    return started(command, settings)


def plan(arguments: str, driver: Path = VGPU) -> subprocess.CompletedProcess[str]:
    code = f"import flashmoe_science as fs\np = fs.plan({arguments})\nprint(p.data['sm_count'])\nprint(p)"
    return run("-c", code, driver=driver)


@needs_kernels
def test_no_driver_is_told() -> None:
    done = plan(f"{DECODE}, device='cuda'", Path("/no/such/libcuda.so.1"))
    assert done.returncode == 1
    assert "RuntimeError: there is no CUDA driver: /no/such/libcuda.so.1" in done.stderr


@needs_virtual_gpu
def test_plans_of_shapes() -> None:
    done = plan(f"{DECODE}, device='cuda:0'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("58\n")  # an L4's
    assert "head_dim 128 on a GPU" in done.stdout
    assert "CTAs on 58 SMs" in done.stdout


@needs_virtual_gpu
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"{DECODE}, device='cuda:5'", "RuntimeError: cuDeviceGet: invalid device"),
        ("*[(1, 1, 8, 64)] * 3, dtype='float32', device='cuda'", "q.dtype is fp32; allowed on a GPU: fp16, bf16"),
        (
            "*[(8, 1, 64)] * 3, layout='bshd', cu_q=(3,), cu_kv=(3,), max_q=4, device='cuda'",
            "max_kv is needed when cu_kv has no data",
        ),
    ],
)
def test_errors_are_told(arguments: str, message: str) -> None:
    assert message in plan(arguments).stderr


@needs_virtual_gpu
def test_calls(tmp_path: Path) -> None:
    """Right, without a finding, and during a call: one launch, no wait, no memory but the framework's."""
    log = tmp_path / "driver.log"
    log.touch()
    done = run(str(HERE / "virtual_gpu_calls.py"), log=str(log))
    assert done.returncode == 0, done.stderr
    asked = Counter(line.removeprefix("vgpu: ") for line in done.stdout.splitlines())
    assert asked["cuLaunchKernel"] == 1
    assert asked["cuMemsetD32Async"] == 1  # the splits' counters
    assert asked["cuMemAlloc"] == 3  # out, lse and the workspace, by the framework
    framework = {"cuMemAlloc", "cuMemsetD8", "cuMemFree", "cuCtxSetCurrent", "cuCtxGetCurrent"}
    assert set(asked) == framework | {"cuLaunchKernel", "cuMemsetD32Async"}, asked


def run_torch(*command: object, preload: tuple[Path, ...] = (), **settings: str) -> str:
    """What a program on torch's CUDA tensors printed; the runtime beside the virtual driver is preloaded."""
    torch = pytest.importorskip("torch")
    if (torch.version.cuda or "").split(".")[0] != "13":
        pytest.skip("this torch was built for another CUDA runtime")
    beside = ROOT / "build/release/vgpu"
    first = (*preload, beside / "libnvJitLink.so.13", beside / "libcudart.so.13")
    settings |= {
        "LD_LIBRARY_PATH": str(beside),
        "LD_PRELOAD": os.pathsep.join(map(str, first)),
        "VGPU_PTXAS": "off",
    }
    done = started(command, settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_virtual_gpu
def test_torch_tensors(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    printed = run_torch(HERE / "virtual_gpu_torch.py", VGPU_CHECK="all", VGPU_REPORT=str(report))
    assert printed == "right\n"
    launches = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(launches) >= 3
    assert not [launch for launch in launches if launch.get("findings")], "a check found something"


@pytest.mark.timed
@needs_virtual_gpu
def test_host_time_of_torch_tensors() -> None:
    """PyTorch's time at S=128 is dispatch. Ours: at most 8 us, or 0.7 of its own, measured in turns."""
    built = ROOT / "build/release/tests/cuda"
    counting, empty = built / "libcounting_driver.so", built / "libempty_launches.so"
    told = json.loads(
        run_torch(
            HERE / "virtual_gpu_host_time.py", counting, empty, preload=(empty,), FLASHMOE_DRIVER=str(counting)
        )
    )
    print(told)
    assert told["torch_launches"] == 1, "torch took another way"
    assert told["driver_calls"]["cuLaunchKernel"] == 1
    context = sum(told["driver_calls"][name] for name in told["driver_calls"] if name.startswith("cuCtx"))
    assert told["driver_calls"]["all"] == 1 + context, "beside the launch nothing but which context is current"
    assert told["allocations"] == 1, "the output"
    assert told["ours"] <= 8 or told["ratio"] <= 0.7
