"""Timing two calls against each other in one process."""

from __future__ import annotations

import gc
import math
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median

from .intervals import Interval, Looks, ratio_interval

Call = Callable[[], object]
Clock = Callable[[], int]

# Samples during which another program took a processor are repeated: with a busy neighbour that is most of the noise.
# Long ones are not: they would hardly ever be undisturbed.
MAX_RETRIES = 8
LONGEST_RETRIED_SECONDS = 30e-3


def involuntary_switches() -> int:
    """How often the kernel has taken a processor away from any thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


@dataclass(frozen=True)
class SamplingPolicy:
    looks: Looks
    sample_seconds: float = 2e-3  # far above the clock's resolution and a timer interrupt's cost
    # Untimed calls before each sample. AMX reaches its speed only 0.1 to 1 ms after it was last used, and a thread pool
    # of the other side may still spin: both sides are timed warm.
    lead_in_seconds: float = 1e-3
    # Longer pairs are taken once per block (AB, BA, ...) instead of twice (ABBA, BAAB): their samples are long anyway.
    long_pair_seconds: float = 40e-3
    budget_seconds: float = 4.0  # no further look is begun after this
    precision: float = math.inf  # also go on until the interval is this narrow, relatively


@dataclass
class PairTimes:
    """Samples of the two sides, in seconds per call, and the blocks' log ratios (baseline / ours)."""

    baseline_seconds: list[float] = field(default_factory=list)
    ours_seconds: list[float] = field(default_factory=list)
    log_ratios: list[float] = field(default_factory=list)
    ours_cpu_per_wall: float = 0.0
    looks: int = 0
    interrupted_samples: int = 0

    @property
    def baseline_median(self) -> float:
        return median(self.baseline_seconds)

    @property
    def ours_median(self) -> float:
        return median(self.ours_seconds)


def time_calls(call: Call, count: int, clock: Clock = time.perf_counter_ns) -> float:
    """Seconds per call over `count` calls in a row."""
    start = clock()
    for _ in repeat(None, count):
        call()
    return (clock() - start) * 1e-9 / count


def seconds_per_call(call: Call, seconds: float, clock: Clock = time.perf_counter_ns) -> float:
    """A first estimate, and the warm-up: a row of calls that lasts long enough, the best of a few unless it is slow."""
    count = 1
    while (per_call := time_calls(call, count, clock)) * count < seconds:
        count = max(count * 2, min(count * 16, math.ceil(seconds / max(per_call, 1e-9))))
    for _ in range(3):
        if per_call * count > LONGEST_RETRIED_SECONDS * 4:
            break
        per_call = min(per_call, time_calls(call, count, clock))
    return per_call


def processors_used(call: Call, seconds: float = 0.3) -> float:
    """Processor time per wall time of a row of calls, long enough that what the two clocks differ by is nothing."""
    cpu_start, wall_start = time.process_time(), time.perf_counter()
    while time.perf_counter() - wall_start < seconds:
        call()
    return (time.process_time() - cpu_start) / (time.perf_counter() - wall_start)


class PairSampler:
    """Takes blocks of interleaved samples and keeps them; can be continued later."""

    def __init__(
        self,
        baseline: Call,
        ours: Call,
        policy: SamplingPolicy,
        clock: Clock = time.perf_counter_ns,
        seed: int = 0,
        times: PairTimes | None = None,
    ) -> None:
        self.baseline, self.ours = baseline, ours
        self.policy, self.clock = policy, clock
        self.times = PairTimes() if times is None else times
        self._random = random.Random(seed)
        baseline_estimate = seconds_per_call(baseline, policy.sample_seconds, clock)
        ours_estimate = seconds_per_call(ours, policy.sample_seconds, clock)
        self._baseline_calls = max(1, math.ceil(policy.sample_seconds / baseline_estimate))
        self._ours_calls = max(1, math.ceil(policy.sample_seconds / ours_estimate))
        lead_in_share = policy.lead_in_seconds / policy.sample_seconds
        self._baseline_lead_in = self._lead_in(self._baseline_calls, lead_in_share)
        self._ours_lead_in = self._lead_in(self._ours_calls, lead_in_share)
        self._long = baseline_estimate + ours_estimate > policy.long_pair_seconds
        self._ours_cpu_ns = 0
        self._ours_wall_ns = 0

    @staticmethod
    def _lead_in(calls: int, share: float) -> int:
        # One call that fills a whole sample needs no lead-in: its own first millisecond is a small part of it.
        return 0 if calls == 1 else max(1, round(calls * share))

    def _undisturbed_seconds(self, call: Call, lead_in: int, count: int) -> float:
        """One sample. If the kernel gave a processor to another program meanwhile, it is taken again, a few times."""
        for _ in range(1 + MAX_RETRIES):
            for _ in repeat(None, lead_in):
                call()
            switches = involuntary_switches()
            seconds = time_calls(call, count, self.clock)
            if involuntary_switches() == switches:
                break
            self.times.interrupted_samples += 1
            if seconds * count > LONGEST_RETRIED_SECONDS:
                break
        return seconds

    def _sample_baseline(self) -> float:
        seconds = self._undisturbed_seconds(self.baseline, self._baseline_lead_in, self._baseline_calls)
        self.times.baseline_seconds.append(seconds)
        return math.log(seconds)

    def _sample_ours(self) -> float:
        cpu_start, wall_start = time.process_time_ns(), time.perf_counter_ns()
        seconds = self._undisturbed_seconds(self.ours, self._ours_lead_in, self._ours_calls)
        self._ours_cpu_ns += time.process_time_ns() - cpu_start
        self._ours_wall_ns += time.perf_counter_ns() - wall_start
        self.times.ours_seconds.append(seconds)
        return math.log(seconds)

    def _block(self, baseline_first: bool) -> None:
        if self._long:
            order = "AB" if baseline_first else "BA"
        else:
            order = "ABBA" if baseline_first else "BAAB"
        total = {"A": 0.0, "B": 0.0}
        for side in order:
            total[side] += self._sample_baseline() if side == "A" else self._sample_ours()
        self.times.log_ratios.append((total["A"] - total["B"]) / (len(order) / 2))

    def interval(self) -> Interval:
        return ratio_interval(self.times.log_ratios, self.policy.looks.error_probability)

    def run(self, threshold: float | None, *, second_pass: bool = False) -> Interval:
        """Sample until the interval is clear of the threshold and precise enough, at the looks the policy allows."""
        looks = self.policy.looks.blocks
        if not second_pass and len(looks) > 1:
            looks = looks[:-1]
        start = self.clock()
        gc_was_enabled = gc.isenabled()
        gc.disable()
        try:
            for blocks in looks:
                if blocks <= len(self.times.log_ratios):
                    continue
                while len(self.times.log_ratios) < blocks:
                    # Long pairs alternate strictly, so that a drift within a pair has either sign equally often.
                    even = len(self.times.log_ratios) % 2 == 0
                    self._block(even if self._long else self._random.random() < 0.5)
                self.times.looks += 1
                interval = self.interval()
                clear = threshold is None or interval.clear_of(threshold)
                if clear and interval.relative_width <= self.policy.precision:
                    break
                if (self.clock() - start) * 1e-9 > self.policy.budget_seconds:
                    break
        finally:
            if gc_was_enabled:
                gc.enable()
            if self._ours_wall_ns:
                self.times.ours_cpu_per_wall = self._ours_cpu_ns / self._ours_wall_ns
        return self.interval()
