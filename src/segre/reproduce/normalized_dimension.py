"""Is the dimension of two softmax layers what the paper conjectures?

*Geometry of Lightning Self-Attention* checks its conjecture for normalised (softmax) attention
numerically: l = 2, t = 3, a = 2, d = 3..10, the rank of a float32 Jacobian at 250 inputs. Here
the same dimensions are certified, for softmax and for lightning, with the conjecture and
floating-point estimates beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from segre.geometry.closed_form import closed_form
from segre.geometry.dimension import dimension
from segre.geometry.estimate import spectrum
from segre.reproduce.claim import PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Mark, Panel, Series, Table
from segre.reproduce.state import Kept
from segre.spec import Network

INPUTS = 250
KINDS = {"softmax": "conjecture", "lightning": "theorem"}
COLUMNS = ("parameters", "conjectured", "certified", "float64", "gap", "float32")


def spec_of(kind: str, d: int) -> str:
    """Two layers of one width."""
    return f"{kind}/d={d},{d},{d}/a=2/t=3"


def row(kind: str, d: int, seed: int, _kept: Kept | None = None) -> dict[str, Any]:
    """One width: counted, certified, and estimated."""
    spec = Network.parse(spec_of(kind, d))
    found = dimension(spec, method="exact", seed=seed)
    double = spectrum(spec, seed=seed, inputs=INPUTS)
    single = spectrum(spec, seed=seed, inputs=INPUTS, dtype=np.float32)
    return {
        "parameters": spec.parameters,
        "conjectured": closed_form(spec).value,
        "certified": found.value,  # None if the bounds do not meet
        "float64": double.rank,
        "gap": double.gap,
        "float32": single.rank,
    }


def run(given: Run) -> Found:
    """All widths, softmax first."""
    widths = list(range(3, given.options["widest"] + 1))
    found = {
        (kind, d): given.each_seed(f"{kind}, d = {d}", partial(row, kind, d))
        for kind in KINDS
        for d in widths
    }
    rows = [(kind, d, *(each[0][name] for name in COLUMNS)) for (kind, d), each in found.items()]
    table = Table(
        "Dimension of two attention layers, t = 3, a = 2; every column is computed",
        "{kind} {d:d} {parameters:d} {conjectured:d} {certified} {float64:d} {gap:.0e} {float32:d}",
        rows,
        note="float64, float32: ranks of floating-point Jacobians, which are estimates, for the "
        "first seed. gap: between the singular values that are counted and those that are not.",
    )
    return Found(
        [_claim(kind, widths, found, given.seeds) for kind in KINDS],
        (table,),
        [_panel(kind, widths, found) for kind in KINDS],
        (
            "Certified: the exact rank of the Jacobian mod p meets the upper bound from "
            "symmetries. The paper's public script plots the formula under the label of the "
            "estimate; it is not evidence, and is not used here.",
        ),
    )


def _claim(kind: str, widths: list[int], found: dict[Any, Any], seeds: Sequence[int]) -> Claim:
    """How often the dimension is proved and is the expected one."""
    return PAPER(
        f"Number of widths d = 3..{widths[-1]} at which the certified dimension of {kind} layers "
        f"is that of the {KINDS[kind]}"
    ).near(
        len(widths),
        [
            sum(found[kind, d][n]["certified"] == found[kind, d][n]["conjectured"] for d in widths)
            for n in range(len(seeds))
        ],
        tolerance=0,
    )


def _panel(kind: str, widths: list[int], found: dict[Any, Any]) -> Panel:
    def series(label: str, name: str, mark: Mark, colour: int) -> Series:
        return Series(label, widths, [found[kind, d][0][name] for d in widths], mark, colour)

    lines = (
        series("parameters", "parameters", "dots", -1),
        series(f"formula ({KINDS[kind]})", "conjectured", "line", 0),
        series("certified (exact rank = upper bound)", "certified", "points", 0),
        series("float32 rank (estimate)", "float32", "crosses", 3),
    )
    title = f"Two {kind} layers, t = 3, a = 2"
    return Panel(title, "width d", "dimension of the function space", lines, ticks=widths)


EXPERIMENT = Experiment(
    name="normalized-dimension",
    title="Certified dimensions of two attention layers, l = 2, t = 3, a = 2, d = 3..10.",
    work=Work(
        "Geometry of Lightning Self-Attention: Identifiability and Dimension",
        "Henry, Marchetti, Kohn",
        2024,
        "2408.17221",
    ),
    question="Is the dimension of two softmax layers what the paper conjectures?",
    run=run,
    examples=("normalized-dimension -o figure.png",),
    options=(Option("widest", int, 10, "Largest width d.", 3, 40),),
    small={"widest": 3},
    dimension_of=lambda row: (spec_of(row[0], row[1]), row[4]),
)
