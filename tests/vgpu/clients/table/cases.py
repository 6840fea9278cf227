"""What a suite of clients' cases tells the table: one line of JSON a case, written when the case has ended.

suite = Suite(sys.argv[1])            the file that the lines go to
suite.run("add float32", function)    passed, or failed with the last line of what it raised
suite.skip("sort", "why")
"""

from __future__ import annotations

import json
import signal
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import ClassVar

CASE_SECONDS = 1200  # compilers are slow where others build, too


class TooLong(BaseException):
    """Not an Exception: a case that catches everything must not catch this."""


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong


def sentence(error: BaseException) -> str:
    """The first line that says something, short enough for a table."""
    if isinstance(error, TooLong):
        return f"took more than {CASE_SECONDS} s"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:240]


class Suite:
    def __init__(self, file: str) -> None:
        self._lines = Path(file).open("a")
        signal.signal(signal.SIGALRM, _too_long)

    def tell(self, case: str, outcome: str, why: str = "") -> None:
        self._lines.write(json.dumps({"case": case, "outcome": outcome, "why": why}) + "\n")
        self._lines.flush()
        print(f"{outcome}: {case}{': ' + why if why else ''}", flush=True)

    def skip(self, case: str, why: str) -> None:
        self.tell(case, "skipped", why)

    def run(self, case: str, function: Callable[[], object]) -> None:
        signal.alarm(CASE_SECONDS)
        try:
            function()
        except (Exception, TooLong) as error:  # whatever a client throws is its result
            self.tell(case, "failed", sentence(error))
        else:
            self.tell(case, "passed")
        finally:
            signal.alarm(0)


Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Told(unittest.TestResult):
    """Results of somebody's unittest suite, for the table."""

    suite: ClassVar[Suite]

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.failed = False
        signal.alarm(CASE_SECONDS)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.alarm(0)
        super().stopTest(test)

    def _failed(self, test: unittest.TestCase, error: Error) -> None:
        if not self.failed:
            self.suite.tell(test.id(), "failed", sentence(error[1]) if error[1] else "")
        self.failed = True

    def addSuccess(self, test: unittest.TestCase) -> None:
        if not self.failed:
            self.suite.tell(test.id(), "passed")

    def addError(self, test: unittest.TestCase, err: Error) -> None:
        self._failed(test, err)

    def addFailure(self, test: unittest.TestCase, err: Error) -> None:
        self._failed(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Error | None) -> None:
        if err is not None:
            self._failed(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.suite.skip(test.id(), reason)

    def addExpectedFailure(self, test: unittest.TestCase, _err: Error) -> None:
        self.addSuccess(test)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.suite.tell(test.id(), "failed", "passed, where its authors expect a failure")


def run_unittest(suite: Suite, names: list[str]) -> None:
    Told.suite = suite
    for name in names:
        try:
            tests = unittest.defaultTestLoader.loadTestsFromName(name)
            tests.run(Told())
        except TooLong:
            suite.tell(name, "failed", f"took more than {CASE_SECONDS} s")
        except BaseException as error:
            suite.tell(name, "failed", sentence(error))
            if not isinstance(error, Exception):
                raise
    sys.stdout.flush()
