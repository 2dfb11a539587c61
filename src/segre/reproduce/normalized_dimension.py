"""Is the dimension of two softmax layers what the paper conjectures?

*Geometry of Lightning Self-Attention* checks its conjecture for normalised (softmax) attention
numerically: l = 2, t = 3, a = 2, d = 3..10, the rank of a float32 Jacobian at 250 inputs. Here
the same dimensions are certified, for softmax and for lightning, with the conjecture and
floating-point estimates beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from segre.finding import Status
from segre.geometry.closed_form import closed_form
from segre.geometry.dimension import dimension
from segre.geometry.estimate import spectrum
from segre.geometry.progress import Progress, quiet
from segre.shown import Shown
from segre.spec import Network

INPUTS = 250


@dataclass(frozen=True)
class Row:
    """One width of the experiment."""

    kind: str
    d: int
    parameters: int
    conjectured: int
    certified: int
    status: Status
    float64: int
    float64_gap: float
    float32: int

    def document(self) -> dict[str, Any]:
        """The row as plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Rows(Shown):
    """The whole table."""

    rows: tuple[Row, ...]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"rows": [row.document() for row in self.rows]}


def experiment(
    widths: Iterable[int] = range(3, 11), *, seed: int = 0, progress: Progress = quiet
) -> list[Row]:
    """All rows, softmax first."""
    kinds: tuple[str, ...] = ("softmax", "lightning")
    cases = [(kind, d) for kind in kinds for d in widths]
    rows = []
    for n, (kind, d) in enumerate(cases):
        progress(f"{kind} d={d}", n, len(cases))
        rows.append(_row(kind, d, seed))
    return rows


def _row(kind: str, d: int, seed: int) -> Row:
    spec = Network.parse(f"{kind}/d={d},{d},{d}/a=2/t=3")
    found = dimension(spec, method="exact", seed=seed)
    double = spectrum(spec, seed=seed, inputs=INPUTS)
    single = spectrum(spec, seed=seed, inputs=INPUTS, dtype=np.float32)
    return Row(
        kind=kind,
        d=d,
        parameters=spec.parameters,
        conjectured=closed_form(spec).value,
        certified=found.lower or 0,
        status=found.status,
        float64=double.rank,
        float64_gap=double.gap,
        float32=single.rank,
    )
