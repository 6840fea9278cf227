"""The card of the stand-in: work is queued and done when somebody waits, or captured and done at a replay."""

from __future__ import annotations

import contextlib
import time

queue, capture, has_run = [], None, False


def is_available():
    return True


def enqueue(work):
    global has_run
    if capture is not None:
        assert has_run, "torch wants to have run what it captures"
        capture.append(work)
    else:
        has_run = True
        queue.append(work)


def synchronize():
    assert capture is None, "a capture waits for nothing"
    while queue:
        queue.pop(0)()


def must_be_synchronised():
    assert not queue, "a result was read that nobody has waited for"


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing
        self.at = None

    def record(self):
        enqueue(lambda: setattr(self, "at", time.perf_counter()))

    def synchronize(self):
        synchronize()

    def elapsed_time(self, end):
        assert self.at is not None and end.at is not None
        return 1e3 * (end.at - self.at)


class Stream:
    def wait_stream(self, other):
        assert isinstance(other, Stream)


class CUDAGraph:
    def __init__(self):
        self.work = []

    def replay(self):
        assert self.work
        queue.extend(self.work)


@contextlib.contextmanager
def graph(one):
    global capture
    capture = one.work
    try:
        yield
    finally:
        capture = None


def current_stream():
    return Stream()


@contextlib.contextmanager
def stream(_):
    yield


@contextlib.contextmanager
def device(name):
    assert name == "cuda:0"
    yield


def get_device_properties(name):
    class Properties:
        L2_cache_size = 1 << 20

    return Properties
