"""Small certificates that make the kernel use much memory: none may take more than the limit.

Each document is short, well formed and sealed, and asks for a check that is as large as the
kernel allows: the largest size of its kind that is not refused at once. It is checked in a process
of its own with a small limit, and the peak of that process is measured. A check that takes long is
stopped after some seconds of CPU time; what it has taken until then counts.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from contextlib import suppress
from typing import Any, NoReturn

from bench.faults.tally import Tally
from bench.kernel import hostile, sealed
from segre.errors import SegreError, SpecError, TooLargeError
from segre.kernel import verify
from segre.kernel.meter import Meter

LIMIT = 64 << 20
SLACK = 56 << 20  # vectors are reduced in chunks of a million entries, of which some copies exist
_LARGEST = 1 << 16
KINDS = {
    "contexts, one long sequence": "transformer/d=1/head=1/vocab=1/pos=learned/t={}",
    "contexts, attention without shares": (
        "transformer/d=1/head=1/vocab=1/attn=lightning/pos=learned/t={}"
    ),
    "contexts, many layers": "transformer/d=2/head=2/vocab=2/pos=rope/t=9/layers={}",
    "long inputs": "transformer/d=1/head=1/t={}",
    "long inputs, norms": "transformer/d=2/norm=layer/mlp=gelu/ff=2/bias=all/t={}",
    "long inputs, experts": "transformer/d=2/mlp=swiglu/experts=8/active=2/eff=2/t={}",
    "many outputs": "transformer/d=1/head=1/t=4/output=softmax/vocab={}",
    "many outputs and tokens": "transformer/d=1/head=1/attn=lightning/t={0}/vocab={0}",
    "many heads": "transformer/d=1/head=1/t=2/heads={}",
    "wide tokens": "transformer/head=1/t=2/d={}",
    "wide heads": "transformer/d=2/t=2/head={}",
    "many layers": "transformer/d=1/head=1/mlp=gelu/ff=1/t=2/layers={}",
    "stacks of long inputs": "lightning/d=1,1/a=1/t={}",
    "stacks of many heads": "lightning/d=1,1/a=1/t=2/heads={}",
    "stacks of many layers": "lightning/d=1/layers={}/a=1/t=2",
    "wide stacks": "lightning/d={0},{0}/a=1/t=2",
    "mixed stacks of long inputs": "mix/d=1,1/a=1/heads=double/t={}",
    "mixed stacks of many heads": "mix/d=1,1/a=1/heads=double*{}/dv=1/t=2",
    "wide mixed stacks": "mix/d={0},{0}/a=1/heads=double/t=2",
}
QUICK = ("contexts, attention without shares", "contexts, many layers", "many heads", "wide tokens")


class Endless(Meter):
    """A meter for which memory alone counts."""

    def require(self, work: float) -> None:
        """There is time for everything."""


def document(kind: str, size: int) -> dict[str, Any]:
    """The certificate of a kind and size."""
    found = hostile(KINDS[kind].format(size))
    if kind.startswith("contexts"):
        claim = {**found["claim"], "upper_by": "contexts"}
        found = sealed({**found, "claim": claim, "upper": {"kind": "contexts", "contexts": 1}})
    return found


def too_large(kind: str, size: int) -> bool:
    """Whether there is no such spec, or its certificate is refused for its size."""
    try:
        return refused(document(kind, size))
    except SpecError:
        return True


def refused(found: dict[str, Any]) -> bool:
    """Whether it is refused for its size before anything is computed."""
    try:
        verify(found, meter=Meter(0, most_bytes=LIMIT))
    except TooLargeError as error:
        return error.exit_code == 2  # and not out of time
    except SegreError:
        pass
    return False


def largest(kind: str) -> dict[str, Any] | None:
    """The largest certificate of a kind, about, that is not refused at once."""
    low, high = 0, 1
    while high < _LARGEST and not too_large(kind, high):
        low, high = high, 2 * high
    while low and high - low > 1 + low // 8:
        middle = (low + high) // 2
        low, high = (low, middle) if too_large(kind, middle) else (middle, high)
    return document(kind, low) if low else None


def growth(found: dict[str, Any], seconds: float) -> int:
    """By how many bytes a process grows that checks it; it is stopped after some seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _check(found, seconds, writer)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return int(said) if said else 1 << 62  # it died


def _check(found: dict[str, Any], seconds: float, writer: int) -> NoReturn:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def stop(*_: object) -> NoReturn:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(writer, str(1024 * grown).encode())
        os._exit(0)

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with suppress(SegreError):
            verify(found, meter=Endless(most_bytes=LIMIT))
        stop()
    finally:
        os._exit(1)  # it died, and says nothing


def tally(quick: bool) -> list[Tally]:
    """Check the largest certificates of all kinds, each in a process of its own."""
    for kind in KINDS:
        refused(document(kind, 2))  # imports what it needs, so that processes need not
    tried = wrong = longest = 0
    worst, which = 0, ""
    for kind in QUICK if quick else KINDS:
        found = largest(kind)
        if found is None:
            continue
        tried += 1
        grown = growth(found, 0.7 if quick else 4)
        wrong += grown > LIMIT + SLACK
        longest = max(longest, len(json.dumps(found)))
        if grown > worst:
            worst, which = grown, kind
    note = f"with a limit of {LIMIT >> 20} MiB the largest growth was {worst >> 20} MiB ({which})"
    return [
        Tally(f"small certificates (up to {longest:,} bytes) of large checks", tried, wrong, note)
    ]
