"""One OpenMP runtime in the process: that of torch where torch is installed, else the system's.

libflashmoe.so needs ``libgomp.so.1``. torch's wheels bring a file of that very name, and for the dynamic loader a name
that is loaded already is found: whoever comes first decides for both. torch's must: it is there when the system has
none, and it is the one that torch was built with. Two of them would be two pools of threads on the same cores.
"""

import ctypes
import importlib.util
import os
from pathlib import Path

_NAME = "libgomp.so.1"


def _is_loaded() -> bool:
    try:
        ctypes.CDLL(_NAME, mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _candidates() -> list[str]:
    """Paths, then the bare name, which the loader looks for in its own places. torch is found, not imported."""
    torch = importlib.util.find_spec("torch")
    folders = (torch.submodule_search_locations if torch is not None else None) or []
    files = (Path(folder, "lib", _NAME) for folder in folders)
    return [*(str(file) for file in files if file.exists()), _NAME]


def load_runtime() -> None:
    """Before ``_C``, which is linked with it. The library stays loaded: ctypes never closes one."""
    if _is_loaded():
        return
    for candidate in _candidates():
        try:
            ctypes.CDLL(candidate)
            return
        except OSError:
            continue
    raise ImportError(
        f"flashmoe_science needs {_NAME}, the runtime of GNU OpenMP, and neither the system nor torch has one: install "
        "it (Debian and Ubuntu: libgomp1; Fedora: libgomp), or torch, which brings it"
    )
