"""What does checking a certificate cost: estimated beforehand, charged as it is done, measured?

    python -m bench.kernel            certificates of all kinds, and hostile ones with long inputs
    python -m bench.kernel --quick    a few of them

The kernel refuses what it estimates to take longer than its limit (`segre verify --seconds`). The
estimate must not be below what is charged, nor the charge far below what is measured.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from math import inf, prod
from typing import Any

from bench.harness import Report, arguments
from segre.architectures import Architecture
from segre.certificate import certify, checksum
from segre.errors import SegreError
from segre.kernel import verify
from segre.kernel.document import read_spec
from segre.kernel.meter import Meter
from segre.kernel.network import graph_of
from segre.kernel.witness import argument_count
from segre.models import architecture

HONEST = (
    *("lightning/d=4,4,4/a=2/t=3", "lightning/d=6,6,6/a=2/heads=3/t=4", "lightning/d=9,9/a=9/t=2"),
    *("softmax/d=4,4,4/a=2/t=3", "softmax/d=8,8,8/a=3/dv=4/t=3", "softmax/d=3,3/a=2/heads=4/t=5"),
    *("softmax/d=12,12,12/a=2/t=2", "softmax/d=3,3,3,3,3,3/a=1/t=2", "lightning/d=2,30/a=1/t=2"),
    *("softmax/d=2,2/a=1/t=12", "lightning/d=2,2,2/a=1/t=30", "softmax/d=2,2,2/a=1/t=8"),
    "transformer/d=4/heads=2/head=2/t=3",
    "transformer/d=6/layers=2/heads=2/head=3/norm=layer/mlp=gelu/ff=8/bias=all/t=3",
    "llama/d=8/layers=2/heads=4/kv=2/head=2/ff=8/t=3",
    "gpt2/d=4/layers=1/heads=2/ff=4/vocab=5/positions=3/t=2",
    "qwen3/d=4/heads=2/kv=1/head=2/ff=4/t=3",
    "gemma2/d=4/heads=2/kv=1/head=2/ff=4/vocab=5/t=2",
    "deepseek-v3/d=4/heads=2/head=2/rotary=2/dv=2/qrank=3/kvrank=2/ff=4/t=2",
    "transformer/d=3/mlp=relu/ff=4/t=10",
    "transformer/d=2/mlp=silu/ff=2/norm=rms/t=12",
    "transformer/d=3/attn=lightning/heads=2/head=1/t=16",
    "mix/d=4,4,4/a=2/heads=double,lightning:causal*2/t=3",
    "mix/d=3,3/a=2/heads=linear+softmax:gate=element/dv=2/t=4",
)
HOSTILE = (
    *("softmax/d=1,1/a=1/t=12", "lightning/d=1,1/a=1/t=400", "softmax/d=1,1/a=1/heads=20/t=3"),
    *("softmax/d=1/layers=40/a=1/t=2", "softmax/d=2,2/a=40/dv=40/t=6", "lightning/d=40,40/a=1/t=2"),
    "transformer/d=1/head=1/t=60",
    "transformer/d=2/t=100/attn=lightning",
    "transformer/d=2/heads=8/head=1/t=40",
    "transformer/d=2/norm=layer/mlp=gelu/ff=2/bias=all/t=40",
    "transformer/d=2/norm=rms/place=sandwich/mlp=swiglu/ff=2/layers=4/t=25",
    "transformer/d=2/mlp=swiglu/experts=8/active=2/eff=2/t=40",
    "transformer/d=2/mlp=swiglu/experts=40/active=2/eff=1/t=12",
    "transformer/d=2/head=2/qknorm=true/pos=rope/cap=30/t=40",
    "transformer/d=2/vocab=20/output=softmax/t=20",
    "transformer/d=2/vocab=100/output=logits/t=4",
    "transformer/d=30/heads=2/head=4/mlp=relu/ff=4/t=3",
    "transformer/d=2/mlp=relu/ff=300/t=2",
    "transformer/d=2/pos=learned/positions=60/vocab=3/t=60",
    "mix/d=2,2/a=1/heads=lightning:causal*40/t=4",
    "mix/d=4,4/a=2/heads=double*3/t=40",
    "mix/d=2,2/a=1/heads=softmax:window=0*20/dv=3/t=4",
)


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the hash of the rest of it."""
    return {**document, "checksum": checksum(document)}


def hostile(spec: str, bits: int = 64) -> dict[str, Any]:
    """A short certificate with all cheap fields right, about an architecture that is long."""
    net = architecture(spec)
    stack = spec.startswith(("softmax", "lightning"))
    by = {"lower_by": "minor" if stack else "balls", "upper_by": "spaces", "status": "bounds"}
    lower: dict[str, Any] = {"kind": by["lower_by"], "rows": [[0, 0]], "columns": [0]}
    lower |= {"determinant": 1} if stack else {"bits": bits, "seed": 0}
    return sealed(
        {
            "format": "segre-certificate",
            "version": 6,
            "spec": net.document(),
            "digest": net.digest,
            "claim": {"parameters": net.parameters, "lower": 1, "upper": net.parameters, **by},
            "point": {"prime": 2147483647, "seed": 0},
            "lower": lower,
            "independence": _independence(net) if spec.startswith("softmax") else None,
            "roots": None,
            "upper": {"kind": "spaces", "spaces": [], "rank": 0},
        }
    )


def _independence(net: Architecture) -> dict[str, Any]:
    """A witness of the right size, with points that prove nothing."""
    graph = graph_of(read_spec(net.document()))
    arguments, coordinates = argument_count(graph), prod(graph.input_shape)
    points = list(range(arguments + coordinates))
    return {"arguments": arguments, "coordinates": coordinates, "points": points, "determinant": 1}


def healed(document: dict[str, Any]) -> dict[str, Any]:
    """With the numbers that the kernel finds, so that it goes on to the end."""
    for _ in range(3):
        reason = verify(document).reason
        found = re.search(r"the (?:minor is|rank is) (\d+)|but it is (\d+) mod p", reason)
        if not found:
            break
        number = int(found[1] or found[2])
        if reason.startswith("upper.rank"):
            document["upper"]["rank"] = number
            document["claim"]["upper"] = document["claim"]["parameters"] - number
        else:
            document[reason.partition(".")[0]]["determinant"] = number
        document = sealed(document)
    return document


class Watch(Meter):
    """A meter that remembers what it was asked to allow."""

    def __init__(self, seconds: float = inf) -> None:
        super().__init__(seconds)
        self.estimated = 0.0

    def require(self, work: float) -> None:
        """Add up what is asked for."""
        self.estimated += work
        super().require(work)


def measured(document: dict[str, Any]) -> tuple[Watch, float]:
    """Check a certificate, and say what that was estimated and charged to take, and did take."""
    watch, began = Watch(), time.process_time()
    verify(document, meter=watch)
    return watch, time.process_time() - began


def certificates(quick: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kinds, names and documents."""
    for spec in HONEST[:: 5 if quick else 1]:
        yield "honest", spec, certify(spec)
    for spec in HOSTILE[:: 5 if quick else 1]:
        yield "hostile", spec, healed(hostile(spec))


COLUMNS = {
    "kind": ("kind", ""),
    "spec": ("certificate of", ""),
    "estimated": ("estimated, s", ".3g"),
    "charged": ("charged, s", ".3g"),
    "seconds": ("measured, s", ".3g"),
    "over": ("estimated / measured", ".1f"),
}


def main() -> None:
    given = arguments(__doc__).parse_args()
    report = Report("kernel", given)
    rows = []
    for kind, spec, document in certificates(given.quick):
        try:
            watch, seconds = measured(document)
        except SegreError as error:
            print(f"{spec}: {error}")
            continue
        rows.append(
            {
                "kind": kind,
                "spec": spec,
                "estimated": watch.estimated,
                "charged": watch.spent,
                "seconds": seconds,
                "over": watch.estimated / max(seconds, 1e-9),
            }
        )
    report.table("what checking a certificate costs", COLUMNS, rows)
    report.finish()


if __name__ == "__main__":
    main()
