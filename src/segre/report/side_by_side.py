"""Two models side by side, on the terminal; and the rows that pages and tables show."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
from rich.table import Table as Grid
from rich.text import Text

from segre.analysis.run import Analysis
from segre.analysis.side_by_side import SideBySide
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measure import Measure
from segre.report.collapse import power
from segre.report.comparison import letter, rows
from segre.report.console import plain_console
from segre.report.diff import facts_of
from segre.report.text import printed

Row = tuple[str, str, str]
RESIDUALS = "Residual after the last layer"


@printed.register
def print_side_by_side(found: SideBySide) -> None:
    """Sizes, measures and findings of both; then what changed from one to the other."""
    console = plain_console()
    for number, each in enumerate(found.both):
        console.print(Text(f"{letter(number)}  {each.target.shown}"), soft_wrap=True)
    for title, lines in (
        ("Sizes", size_rows(found)),
        (RESIDUALS, depth_rows(found)),
        ("Measured, medians", measure_rows(found)),
    ):
        if lines:
            grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
            grid.add_column(title, no_wrap=True)
            for number in range(2):
                grid.add_column(letter(number), justify="right")
            for row in lines:
                grid.add_row(*row)
            console.print()
            console.print(grid)
    for number, each in enumerate(found.both):
        if "findings" in each:
            console.print()
            console.print(f"{letter(number)}: {each['findings'].lead or each['findings'].reason}")
            for one in findings_of(each):
                console.print(Text(f"- {one}"))
    console.print()
    if found.changes is None:
        console.print(f"The weights are not compared: {found.no_diff}.")
        return
    console.print("From A to B, by segre diff:")
    facts = Grid.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for name, words in list(facts_of(found.changes))[2:]:
        facts.add_row(name, Text(words))
    console.print(facts)


def size_rows(found: SideBySide) -> list[Row]:
    """Shapes, and every line of `segre compare` on the two."""
    specs = [each.target.spec for each in found.both]
    shapes = [("layers", "depth"), ("width", "width")]
    out: list[Row] = []
    for name, key in shapes:
        one, two = (f"{getattr(spec, key):,}" for spec in specs)
        out.append((name, one, two))
    one, two = (_heads(spec) for spec in specs)
    out.append(("heads in a layer", one, two))
    return out + [(name, words[0], words[1]) for name, words in rows(found.designs)]


def _heads(spec: Any) -> str:
    counts = sorted({int(count) for count in spec.heads_by_layer})
    return ", ".join(map(str, counts))


def depth_rows(found: SideBySide) -> list[Row]:
    """Relative residuals after the last layer, for the variants that both have."""
    ends = [_ends(each) for each in found.both]
    names = [name for name in ends[0] if name in ends[1]]
    if not names:
        return []
    known: Row = ("known by", str(found.one["depth"].status), str(found.two["depth"].status))
    return [*((name, ends[0][name], ends[1][name]) for name in names), known]


def _ends(found: Analysis) -> dict[str, str]:
    data = found["depth"].data if "depth" in found else None
    if data is None:
        return {}
    if data["kind"] == "stack":
        return {"as it is": power(float(np.median([row[-1] for row in data["log10"]["relative"]])))}
    words = {one["variant"]: one["words"] for one in data["versions"]}
    logs = {words[curve["variant"]]: curve["log10"][-1] for curve in data["curves"]}
    return {name: "-" if log is None else power(float(log)) for name, log in logs.items()}


def measure_rows(found: SideBySide) -> list[Row]:
    """Medians of all measures that both models have."""
    one, two = found.diagnoses
    if one is None or two is None:
        return []
    out: list[Row] = []
    if one.loss is not None and two.loss is not None:
        out.append(("Loss, nats", f"{one.loss:.3f}", f"{two.loss:.3f}"))
    for measure, first, second in pairs(one, two):
        out.append((measure.title, _number(first), _number(second)))
    return out


def pairs(one: Diagnosis, two: Diagnosis) -> Iterator[tuple[Measure, Any, Any]]:
    """The measures that both have, with their values."""
    for measure in one.measured:
        if measure.key in two.values:
            yield measure, one.values[measure.key], two.values[measure.key]


def _number(values: Any) -> str:
    middle = float(np.median(values))
    return f"{middle:.3g}" if isfinite(middle) else "-"


def findings_of(found: Analysis) -> list[str]:
    """The findings, one sentence each."""
    data = found["findings"].data if "findings" in found else None
    return [] if data is None else [one["what"] for one in data["findings"]]
