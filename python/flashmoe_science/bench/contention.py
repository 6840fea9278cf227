"""How much of the machine other programs used while a row was measured.

A neighbour does not slow both sides alike: two threads that wait for each other at a barrier lose whole time slices
when one of them has no processor, and the side with more barriers loses more. A row of several threads, measured
with fewer processors than that is therefore not evidence, however narrow its interval is. One thread alone only loses
time slices, on either side as often: the interval shows what that costs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

# Processors missing, on average over the row, before it counts as disturbed. The kernel's own accounting is coarse.
TOLERATED_SHORTAGE = 0.35


def busy_seconds(stat_text: str, ticks_per_second: int) -> float:
    """Processor time spent by everybody, from /proc/stat: all but idle and iowait.

    Stolen time is in it: what the host gave to other machines was missing here as well.
    """
    fields = [int(field) for field in stat_text.splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / ticks_per_second


class Neighbours:
    """Measures from its creation to `processors_used`."""

    def __init__(self) -> None:
        self._start = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        try:
            text = Path("/proc/stat").read_text()
        except OSError:
            return None
        return time.monotonic(), busy_seconds(text, os.sysconf("SC_CLK_TCK")), time.process_time()

    def processors_used(self) -> float | None:
        """By other programs, on average; None where the system does not say."""
        end = self._read()
        if self._start is None or end is None:
            return None
        wall, busy, own = (after - before for before, after in zip(self._start, end, strict=True))
        return max(0.0, (busy - own) / wall) if wall > 0 else 0.0


def is_disturbed(threads: int, used_by_others: float | None, processors: int | None = None) -> bool:
    """Whether threads that wait for each other had too few processors."""
    available = processors or os.cpu_count() or 1
    return threads > 1 and threads + (used_by_others or 0.0) - available > TOLERATED_SHORTAGE
