"""The package imports wherever there is an OpenMP runtime, and never adds a second one to the process."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")

# An auditor of the dynamic loader (rtld-audit(7)) to which the system's libgomp does not exist; torch's does.
HIDE_SYSTEM_LIBGOMP = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
unsigned la_version(unsigned version) { return version; }
char* la_objsearch(const char* name, uintptr_t* cookie, unsigned flag) {
  (void)cookie, (void)flag;
  const char* file = strrchr(name, '/');
  return file != NULL && strcmp(file, "/libgomp.so.1") == 0 && strstr(name, "/torch/") == NULL ? NULL : (char*)name;
}
"""
PRINT_RUNTIMES = """
import re
with open("/proc/self/maps") as maps:
    print(*sorted({line.split()[-1] for line in maps if re.search(r"/lib(gomp|i?omp)[-.5]", line)}))
"""
CALL = "import numpy; flashmoe_science.attention(*[numpy.zeros((1, 2, 64, 64), 'float32')] * 3)\n"


@pytest.fixture(scope="module")
def auditor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("auditor") / "hide_libgomp.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=HIDE_SYSTEM_LIBGOMP, text=True, check=True)
    return library


def run(code: str, auditor: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings}
    if auditor is not None:
        environment["LD_AUDIT"] = str(auditor)
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


ORDERS = {
    "torch first": ("import torch, flashmoe_science\n", "0"),
    "torch second": ("import flashmoe_science, torch\n", "0"),
    "torch left alone": ("import sys, flashmoe_science; assert 'torch' not in sys.modules\n", "1"),
    "torch left alone, then imported": ("import flashmoe_science, torch; torch.ones(9).sum()\n", "1"),
}


@needs_torch
@pytest.mark.parametrize("hidden", [False, True], ids=["system has one", "system has none"])
@pytest.mark.parametrize("order", ORDERS)
def test_torch_s_runtime_is_the_only_one(order: str, hidden: bool, auditor: Path) -> None:
    imports, no_torch = ORDERS[order]
    code = imports + CALL + PRINT_RUNTIMES
    done = run(code, auditor if hidden else None, FLASHMOE_SCIENCE_NO_TORCH=no_torch)
    assert done.returncode == 0, done.stderr
    assert [Path(path).parts[-3:] for path in done.stdout.split()] == [("torch", "lib", "libgomp.so.1")]


@needs_torch
def test_a_runtime_that_is_there_is_used() -> None:
    done = run("import ctypes; ctypes.CDLL('libgomp.so.1')\nimport flashmoe_science\n" + CALL + PRINT_RUNTIMES)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 1 and "/torch/" not in done.stdout


def test_without_torch_the_system_s_is_the_only_one() -> None:
    done = run("import sys; sys.modules['torch'] = None\nimport flashmoe_science\n" + CALL + PRINT_RUNTIMES)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 1 and "/torch/" not in done.stdout


def test_without_any_it_says_what_to_install(auditor: Path) -> None:
    done = run("import sys; sys.modules['torch'] = None\nimport flashmoe_science\n", auditor)
    assert done.returncode == 1
    assert "ImportError: flashmoe_science needs libgomp.so.1" in done.stderr and "libgomp1" in done.stderr
