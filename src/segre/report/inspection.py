"""What is odd in a model, on the terminal."""

from __future__ import annotations

import numpy as np
from rich.table import Table
from rich.text import Text

from segre.inspect.diagnose import Diagnosis
from segre.inspect.measure import Finding
from segre.report.console import plain_console
from segre.report.text import printed


@printed.register
def print_diagnosis(found: Diagnosis) -> None:
    """The findings, then every measure in one line."""
    console = plain_console()
    console.print(Text(head_of(found), style="bold"), soft_wrap=True)
    if not found.findings:
        console.print("Nothing stands out.")
    for number, one in enumerate(found.findings, 1):
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column()
        grid.add_row(f"{number}.", Text(one.what))
        grid.add_row("", Text(f"{one.means}{beside(one)}", style="dim"))
        console.print(grid)
    if found.control_findings is not None:
        console.print(control_in_words(found))
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("measure")
    for column in ("smallest", "median", "largest", "at", *(("random",) if found.control else ())):
        table.add_column(column, justify="right", no_wrap=True, min_width=8)
    for cells in rows_of(found):
        table.add_row(*cells)
    console.print(table)
    if found.effects:
        console.print()
        console.print(effects_of(found))


def head_of(found: Diagnosis) -> str:
    """What was looked into, and on what."""
    loss = "" if found.loss is None else f", loss {found.loss:.3f} nats"
    return f"{found.model['model']} on {found.inputs} ({found.tokens} tokens{loss})"


def beside(finding: Finding) -> str:
    """What random weights have instead."""
    if finding.control is None:
        return ""
    most = "at least" if finding.extreme == "smallest" else "at most"
    return f" With random weights: {most} {finding.control:.3g}."


def control_in_words(found: Diagnosis) -> str:
    """What is found with random weights."""
    count = found.control_findings or 0
    if not count:
        return "With random weights nothing stands out."
    return f"With random weights {count} thing{'s stand' if count > 1 else ' stands'} out."


def rows_of(found: Diagnosis) -> list[list[str]]:
    """Every measure: smallest, median, largest, and where that is."""
    rows = []
    for one in found.measured:
        values = found.values[one.key]
        place = np.unravel_index(int(values.argmax()), values.shape)
        at = {
            "depth": f"depth {place[0]}",
            "layer": f"layer {place[0] + 1}",
            "head": ".".join(str(n + 1) for n in place),
        }[one.axis]
        numbers = [float(values.min()), float(np.median(values)), float(values.max())]
        row = [one.title, *(f"{number:.3g}" for number in numbers), at]
        if found.control:
            twin = found.control.get(one.key)
            row.append("" if twin is None else f"{float(twin.max()):.3g}")
        rows.append(row)
    return rows


def effects_of(found: Diagnosis) -> Table:
    """What interventions do."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("intervention", no_wrap=True)
    for column in ("loss", "sink heads", "outputs apart"):
        table.add_column(column, justify="right", no_wrap=True)
    for number, one in enumerate(found.effects):
        name = one.what if number < 2 else f"control: {one.what}"
        loss = "" if one.loss is None else f"{one.loss:.3f}"
        sinks = "" if one.sinks is None else str(one.sinks)
        table.add_row(name, loss, sinks, f"{one.apart:.2g}")
    return table
