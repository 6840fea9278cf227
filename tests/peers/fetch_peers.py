"""Brings the peers' sources: FlashInfer's headers (from its wheel) and FlashAttention-2 with CUTLASS (from its sdist).

Pinned by version and SHA-256, taken as files from the package index that pip is configured for, unpacked below
$FLASHMOE_CACHE (default ~/.cache/flashmoe-science) and never into the tree. Prints one line a peer: name and directory.
"""

import fcntl
import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple


class Peer(NamedTuple):
    project: str
    file: str
    sha256: str
    keep: tuple[str, ...]  # what of it is unpacked


PEERS = {
    "flashinfer": Peer(
        "flashinfer-python",
        "flashinfer_python-0.7.2.post1-py3-none-any.whl",
        "bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49",
        ("flashinfer/data/include/flashinfer/", "flashinfer/data/cccl/libcudacxx/include/"),
    ),
    "flash-attn": Peer(
        "flash-attn",
        "flash_attn-2.8.3.tar.gz",
        "1e71dd64a9e0280e0447b8a0c2541bad4bf6ac65bdeaa2f90e51a9e57de0370d",
        ("flash_attn-2.8.3/csrc/flash_attn/", "flash_attn-2.8.3/csrc/cutlass/include/"),
    ),
}


def cache_directory() -> Path:
    default = Path(os.environ.get("HOME", "/root")) / ".cache" / "flashmoe-science"
    return Path(os.environ.get("FLASHMOE_CACHE") or default) / "peers"


def index_url() -> str:
    """The simple index that `pip install` would use: environment, configuration, else the one built into pip."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    from pip._internal.models.index import PyPI

    return PyPI.simple_url


def find_link(peer: Peer) -> str:
    page = f"{index_url().rstrip('/')}/{peer.project}/"
    request = urllib.request.Request(page, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read().decode()
    for link in re.findall(r'href="([^"]+)"', text):
        url = urllib.parse.urljoin(page, html.unescape(link))
        if urllib.parse.unquote(urllib.parse.urlparse(url).path).endswith("/" + peer.file):
            return url
    raise SystemExit(f"fetch_peers: the package index has no {peer.file}")


def download(peer: Peer, target: Path) -> None:
    digest = hashlib.sha256()
    with urllib.request.urlopen(find_link(peer), timeout=180) as answer, target.open("wb") as out:
        while block := answer.read(1 << 20):
            digest.update(block)
            out.write(block)
    if digest.hexdigest() != peer.sha256:
        target.unlink()
        raise SystemExit(f"fetch_peers: {peer.file} has SHA-256 {digest.hexdigest()}, expected {peer.sha256}")


def unpack(peer: Peer, archive: Path, target: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            names = [name for name in wheel.namelist() if name.startswith(peer.keep) and ".." not in name]
            wheel.extractall(target, names)
        return
    with tarfile.open(archive) as sdist:
        members = [m for m in sdist if m.isfile() and m.name.startswith(peer.keep) and ".." not in m.name]
        sdist.extractall(target, members)


def fetch(name: str) -> Path:
    """The directory that holds the peer's sources; downloads them the first time."""
    peer = PEERS[name]
    root = cache_directory()
    root.mkdir(parents=True, exist_ok=True)
    target = root / f"{name}-{peer.sha256[:12]}"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            archive = target / peer.file
            download(peer, archive)
            unpack(peer, archive, target)
            archive.unlink()
            (target / "complete").touch()
    return target


def main() -> None:
    for name in sys.argv[1:] or PEERS:
        print(name, fetch(name))


if __name__ == "__main__":
    main()
