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
from itertools import islice
from typing import Any, NoReturn

from bench.faults.tally import Tally
from bench.kernel import hostile, sealed
from segre.errors import SegreError, SpecError, TooLargeError
from segre.kernel import verify
from segre.kernel.document import RejectionError, examine
from segre.kernel.meter import Meter, metered
from segre.kernel.network import graph_of
from segre.kernel.random import section
from segre.models import architecture
from segre.symmetry.document import entries

LIMIT = 64 << 20
SLACK = 56 << 20  # vectors are reduced in chunks of a million entries, of which some copies exist
_LARGEST = 1 << 16
_MOST_SPACES = 100  # that a document lists, so that it is small
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
    "softmax stacks of long inputs": "softmax/d=2,2/a=1/t={}",
    "softmax stacks of many layers": "softmax/d=1/layers={}/a=1/t=2",
    "stacks with long decays": "mix/d=2,2/a=1/heads=linear:decay=1/2/t={}",
    "stacks with gates": "mix/d=2,2/a={}/heads=softmax:gate=element/dv=2/t=2",
    "wide polynomials": "poly/{}-2-1/degree=3",
    "deep polynomials": "poly/2{}/degree=2",
    "long filters": "cnn/k={},2/degree=2",
    "rotations of long inputs": "transformer/d=4/head=4/pos=rope/t={}",
    "many rotated heads": "transformer/d=2/head=2/heads={}/pos=rope/t=4",
    "grouped heads": "transformer/d=2/head=1/heads={}/kv=1/t=3",
    "latent attention": (
        "transformer/d=2/head=2/rotary=2/pos=rope/kvrank={}/qrank=2/heads=2/dv=2/t=3"
    ),
    "many experts": "transformer/d=2/mlp=swiglu/experts={}/active=1/eff=1/t=2",
    "gates of heads": "transformer/d=2/heads={}/head=1/gate=element/t=3",
    "norms of queries": "transformer/d=2/heads={}/head=2/norm=rms/qknorm=true/t=3",
    "sandwich norms": "transformer/d=2/norm=rms/place=sandwich/mlp=swiglu/ff=2/t=2/layers={}",
    "wide MLPs": "transformer/d=2/mlp=gelu/ff={}/bias=all/t=2",
    "learned positions": "transformer/d=1/head=1/pos=learned/vocab=2/t={}",
    "tied tables": "transformer/d=2/vocab={}/tied=true/output=softmax/t=3",
    "sinks and windows": "transformer/d=2/heads=2/head=1/sinks=true/causal=true/window=2/t={}",
}
QUICK = ("contexts, attention without shares", "contexts, many layers", "many heads", "wide tokens")
WAYS = ("", "spaces", "random")  # what the upper bound is by, if the document gets that far


class Endless(Meter):
    """A meter for which memory alone counts."""

    def require(self, work: float) -> None:
        """There is time for everything."""


def document(kind: str, size: int, way: str = "") -> dict[str, Any]:
    """The certificate of a kind and size, with an upper bound in some way."""
    found = hostile(KINDS[kind].format("-2" * size if kind == "deep polynomials" else size))
    if way:  # a lower bound that is nothing leads straight to the upper one
        lower = {"kind": "balls", "rows": [], "columns": [], "bits": 64, "seed": 0}
        claim = {**found["claim"], "lower": 0, "lower_by": "balls"}
        found = {**found, "claim": claim, "lower": lower, "independence": None}
    if way == "spaces":
        spaces = list(islice(entries(architecture(found["spec"])), _MOST_SPACES))
        found["upper"] = {"kind": "spaces", "spaces": spaces, "rank": 0}
    elif way == "random":
        found["claim"] |= {"upper": 0, "upper_by": "random", "status": "certain"}
        with suppress(SegreError, RejectionError), metered(Meter(1)):
            certificate = examine(sealed({**found, "upper": {"kind": "random"}}))
            found["upper"] = section(certificate, graph_of(certificate.spec))
    elif kind.startswith("contexts"):
        claim = {**found["claim"], "upper_by": "contexts"}
        found = {**found, "claim": claim, "upper": {"kind": "contexts", "contexts": 1}}
    return sealed(found)


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


def largest(kind: str) -> int:
    """The size of the largest certificate of a kind, about, that is not refused at once."""
    low, high = 0, 1
    while high < _LARGEST and not too_large(kind, high):
        low, high = high, 2 * high
    while low and high - low > 1 + low // 8:
        middle = (low + high) // 2
        low, high = (low, middle) if too_large(kind, middle) else (middle, high)
    return low


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
    tried = wrong = longest = 0
    worst, which = 0, ""
    for kind in QUICK if quick else KINDS:
        size = largest(kind)
        for way in WAYS if size else ():
            refused(document(kind, 2, way))  # imports what it needs, so that processes need not
            found = document(kind, size, way)
            tried += 1
            grown = growth(found, 0.7 if quick else 2)
            wrong += grown > LIMIT + SLACK
            longest = max(longest, len(json.dumps(found)))
            if grown > worst:
                worst, which = grown, f"{kind}, {way or 'lower bound'}"
    note = f"with a limit of {LIMIT >> 20} MiB the largest growth was {worst >> 20} MiB ({which})"
    return [
        Tally(f"small certificates (up to {longest:,} bytes) of large checks", tried, wrong, note)
    ]
