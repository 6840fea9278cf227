"""A child has no threads but its own; OpenMP's are its parent's, if that had any. Needs neither torch nor NumPy."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
import flashmoe_science as fs

def planned():
    return fs.plan((8, 8, 512, 64), (8, 8, 512, 64), (8, 8, 512, 64)).data["threads"]

def planned_in_a_child():
    child = os.fork()
    if child == 0:
        os._exit(planned())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

team = planned()
assert len(os.listdir("/proc/self/task")) == 1, "this test needs a process of one thread"
assert planned_in_a_child() == team, "nobody's threads are missing"
import threading
over = threading.Event()
threading.Thread(target=over.wait).start()
in_child = planned_in_a_child()
over.set()
assert in_child == 1, in_child
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="a team of one here")
def test_children_know_whether_their_parent_had_threads() -> None:
    environment = {**os.environ, "FLASHMOE_SCIENCE_NO_TORCH": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
