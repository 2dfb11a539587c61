"""How much work has a check done, and is there time and memory for more? Asked before it is done.

Work is charged in seconds of one core of an ordinary machine of 2024, by rates that were measured
(`python -m bench.kernel`), so that it is the same number on every machine. The deadline is one of
the clock. What would not be done by then is not begun, so that no single operation overruns it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf

from segre.errors import TooLargeError

Progress = Callable[[str, int, int], None]  # what is done, how much of it, and of how much

MOST_SECONDS = 3600.0
MOST_BYTES = 2 << 30


class OutOfTimeError(TooLargeError):
    """There is no time to check a certificate: whether it holds is not known."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds that the units of work take."""

    step: float  # an operation on matrices, whatever their size
    entry: float  # an entry that Python handles
    function: float  # a function of an entry, or a drawn one
    product: float  # a multiplication inside flint
    copy: float  # an entry that flint reads or writes, in matrices that are thin

    def matmul(self, rows: int, inner: int, columns: int) -> float:
        """The product of two matrices."""
        touched = rows * inner + inner * columns + rows * columns
        return self.step + rows * inner * columns * self.product + touched * self.copy


ARRAYS = Rates(step=30e-6, entry=10e-9, function=0.2e-6, product=1e-9, copy=4e-9)  # of numpy
RESIDUES = Rates(step=5e-6, entry=0.8e-6, function=1.6e-6, product=0.8e-9, copy=12e-9)


def silently(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


def balls(bits: int) -> Rates:
    """The rates of real numbers, known to so many bits."""
    return Rates(
        step=6e-6,
        entry=(0.4 + bits / 2000) * 1e-6,
        function=(1.5 + bits / 100 + bits * bits / 120_000) * 1e-6,
        product=(20 + bits / 10 + bits * bits / 9000) * 1e-9,
        copy=40e-9,
    )


class Meter:
    """What was spent, and when there is no more."""

    def __init__(
        self,
        seconds: float = inf,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.seconds, self.most_bytes = seconds, most_bytes
        self.spent = 0.0
        self._clock = clock
        self._end = clock() + seconds

    def charge(self, work: float) -> None:
        """Pay for work that comes next; refused if it would end too late."""
        self.spent += work
        if self._clock() + work > self._end:
            raise OutOfTimeError(
                f"the certificate was not checked in {self.seconds:g} s, and may be valid or not; "
                "give more --seconds"
            )

    def require(self, work: float) -> None:
        """Refuse work as a whole, before any of it is begun, if there is no time for it."""
        if self._clock() + work > self._end:
            raise OutOfTimeError(
                f"checking the certificate would take about {_duration(work)}, and the limit is "
                f"{_duration(self.seconds)}; it may be valid or not: give more --seconds"
            )

    def require_bytes(self, size: int) -> None:
        """Refuse what would hold so many bytes in memory at once, before any of it is made."""
        if size > self.most_bytes:
            raise TooLargeError(
                f"checking the certificate needs about {size / 2**30:.1f} GiB of memory; "
                f"the limit is {self.most_bytes / 2**30:g} GiB"
            )


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


_UNLIMITED = Meter()
_current: ContextVar[Meter] = ContextVar("meter", default=_UNLIMITED)


def meter() -> Meter:
    """The meter that is running."""
    return _current.get()


def charge(work: float) -> None:
    """Pay for work that comes next."""
    _current.get().charge(work)


def afford(work: float) -> None:
    """Ask for the time of work as a whole, and pay for it."""
    meter().require(work)
    charge(work)


@contextmanager
def metered(running: Meter) -> Iterator[Meter]:
    """Charge all work inside to this meter."""
    token = _current.set(running)
    try:
        yield running
    finally:
        _current.reset(token)
