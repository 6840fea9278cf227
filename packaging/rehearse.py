"""A release, up to the upload: all wheels from a folder as the index into fresh environments, and a run without any.

    rehearse.py INDEX WORK

The version is one and the same in VERSION, CHANGELOG.md, all wheels and what is installed. `cudadent` is also run by
`uv tool run` (uvx), which installs it for this one time, and finds the race in examples/virtual_gpu/first_finding.py.
`flashmoe-science[cuda]` brings compiled kernels, which a virtual GPU loads; without the extra a sentence says what to
do.
flashmoe-science is also met by each torch that .ci/setup has made an environment of, and by transformers, where no
compiler is on the PATH. The Python that runs this has pip, uv and NumPy, which flashmoe-science wants.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = (ROOT / "VERSION").read_text().split()[0]
ATTENTION = """
import numpy, flashmoe_science
q = numpy.random.default_rng(0).standard_normal((1, 2, 5, 64), dtype=numpy.float32)
o = flashmoe_science.attention(q, q[:, :, :1], q[:, :, :1])
assert numpy.allclose(o, q[:, :, :1]), "one key has all the weight"
print(flashmoe_science.__version__)
"""
# Kernels are loaded to plan with: their occupancy is asked for.
PLAN_ON_GPU = """
import flashmoe_science
print(flashmoe_science.plan((1, 4, 64, 64), (1, 4, 64, 64), (1, 4, 64, 64), device="cuda"))
"""
BESIDE_TORCH = """
import warnings

import torch
import transformers
from torch.nn.attention.varlen import varlen_attn

import flashmoe_science
import flashmoe_science.hf
from flashmoe_science import routing

q = torch.randn(10, 2, 64)
offsets = torch.tensor([0, 4, 10], dtype=torch.int32)
expected = flashmoe_science.attention(q, q, q, cu_q=offsets, cu_kv=offsets, layout="bshd")
with routing.open("varlen"):
    assert torch.equal(varlen_attn(q, q, q, offsets, offsets, 6, 6), expected)
config = transformers.LlamaConfig(
    vocab_size=50, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, head_dim=32
)
model = transformers.AutoModelForCausalLM.from_config(config).eval()
ids = torch.arange(20)[None]
with torch.no_grad():
    theirs = model(ids).logits
    model.set_attn_implementation("fms")
    assert torch.allclose(model(ids).logits, theirs, atol=1e-5)
print(torch.__version__)
"""


def check(holds: object, what: str) -> None:
    if not holds:
        sys.exit(f"rehearse: {what}")


def output(*command: str | Path, codes: tuple[int, ...] = (0,), **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], env=os.environ | variables, text=True, timeout=600, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    check(done.returncode in codes, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def installed(index: Path, folder: Path, distributions: str, packages: str = "") -> Path:
    """The Python of a fresh environment with the distributions; `packages`: what pip would download besides."""
    output(sys.executable, "-m", "venv", "--without-pip", folder)
    if packages:
        (next(folder.glob("lib/python3*/site-packages")) / "others.pth").write_text(packages + "\n")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet")
    output(*pip, "--disable-pip-version-check", "--no-index", "--find-links", index, *distributions.split())
    return folder / "bin/python"


def rehearse_images(index: Path, work: Path, numpy: str) -> None:
    """The wheels alone: the virtual GPU of one, the library and the kernels of the others; nothing can be compiled."""
    cases = (("", 1, "pip install flashmoe-science-cuda"), ("[cuda]", 3, "on 58 SMs"))  # 3: a plan launches nothing
    for extra, code, expected in cases:
        python = installed(index, work / f"gpu{extra.strip('[]')}", f"cudadent flashmoe-science{extra}", numpy)
        command = (python.parent / "cudadent", "run", "--device", "virtual:l4", "--", python, "-c", PLAN_ON_GPU)
        told = output(*command, codes=(code,), FLASHMOE_NVRTC="/no/such/libnvrtc.so")
        check(expected in told, f"flashmoe-science{extra} on a virtual GPU does not say '{expected}':\n{told}")
        print(f"rehearse: flashmoe-science{extra} on a virtual L4: {expected}")


def main(index: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    check(re.search(rf"^## \[{re.escape(VERSION)}\]", changelog, re.MULTILINE), f"CHANGELOG.md does not know {VERSION}")
    wheels = sorted(path.name for path in index.glob("*.whl"))
    names = [f"{name}-{VERSION}-" for name in ("cudadent", "flashmoe_science", "flashmoe_science_cuda")]
    fits = len(wheels) == 3 and all(wheel.startswith(name) for wheel, name in zip(wheels, names, strict=True))
    check(fits, f"not all distributions in version {VERSION}: {wheels}")
    check(all(re.search("manylinux|-none-any", wheel) for wheel in wheels), f"PyPI would refuse one of {wheels}")

    python = installed(index, work / "cudadent", "cudadent")
    told = output(python.parent / "cudadent", "--version").strip()
    check(told == f"cudadent {VERSION}", f"the installed program is {told}")
    import numpy  # where it is, so that the wheel's only requirement is met

    beside = str(Path(numpy.__file__).parents[1])
    python = installed(index, work / "flashmoe-science", "flashmoe-science", beside)
    told = output(python, "-c", ATTENTION).strip()
    check(told == VERSION, f"the installed library is {told}")
    rehearse_images(index, work, beside)

    transformers = next((ROOT / "build/venv-hf").glob("lib/python3*/site-packages"))
    for name in ("venv", "venv-older"):
        torch = next((ROOT / "build" / name).glob("lib/python3*/site-packages/shared.pth")).read_text().strip()
        python = installed(index, work / f"beside-{name}", "flashmoe-science", f"{torch}\n{transformers}")
        told = output(python, "-c", BESIDE_TORCH, PATH=str(python.parent)).split()[-1]
        print(f"rehearse: attention, varlen_attn and a model of transformers beside torch {told}, without a compiler")

    once = (sys.executable, "-m", "uv", "tool", "run", "--offline", "--no-index", "--find-links", index)
    apart = {"UV_CACHE_DIR": str(work / "uv"), "UV_TOOL_DIR": str(work / "tools"), "UV_PYTHON": sys.executable}
    example = ROOT / "examples/virtual_gpu/first_finding.py"
    command = (*once, "cudadent", "run", "--device", "virtual:l4", "--", sys.executable, example)
    check("racecheck: " in output(*command, codes=(1,), **apart), "the one-shot run found no race")
    print(f"rehearse: {', '.join(wheels)}: installed, and run without installing; version {VERSION}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*(Path(word).resolve() for word in sys.argv[1:]))
