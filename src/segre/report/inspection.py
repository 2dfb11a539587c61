"""The answers of `segre diagnose` and `segre trace`, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measure import Finding
from segre.inspect.trace import WAYS, Trace
from segre.report.console import plain_console
from segre.report.text import printed


@printed.register
def print_diagnosis(found: Diagnosis) -> None:
    """The findings, then one line for every measure."""
    console = plain_console()
    console.print(Text(head_of(found), style="bold"), soft_wrap=True)
    if not found.findings:
        console.print(found.in_words)
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
    """The model and its input."""
    loss = "" if found.loss is None else f", loss {found.loss:.3f} nats"
    return f"{_named(found.model)} on {found.inputs} ({found.tokens} tokens{loss})"


def _named(model: Mapping[str, Any]) -> str:
    """The name of a model, and whether it was trained."""
    return f"{model['model']}{' with random weights' if model['weights'] == 'random' else ''}"


def beside(finding: Finding) -> str:
    """The value with random weights."""
    if finding.control is None:
        return ""
    most = "at least" if finding.extreme == "smallest" else "at most"
    return f" With random weights: {most} {finding.control:.3g}."


def control_in_words(found: Diagnosis) -> str:
    """The findings with random weights."""
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
            "head": f"head {'.'.join(str(n + 1) for n in place)}",
        }[one.axis]
        numbers = [float(values.min()), float(np.median(values)), float(values.max())]
        row = [one.title, *(f"{number:.3g}" for number in numbers), at]
        if found.control:
            twin = found.control.get(one.key)
            row.append("" if twin is None else f"{float(twin.max()):.3g}")
        rows.append(row)
    return rows


def effects_of(found: Diagnosis) -> Table:
    """The effect of interventions."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("intervention", no_wrap=True)
    for column in ("loss", "sink heads", "change of outputs"):
        table.add_column(column, justify="right", no_wrap=True)
    for number, one in enumerate(found.effects):
        name = one.what if number < 2 else f"control: {one.what}"
        loss = "" if one.loss is None else f"{one.loss:.3f}"
        sinks = "" if one.sinks is None else str(one.sinks)
        table.add_row(name, loss, sinks, f"{one.apart:.2g}")
    return table


_BLOCKS = " ▁▂▃▄▅▆▇█"
_MOST = 12  # tokens that are listed


@printed.register
def print_trace(found: Trace) -> None:
    """A strip for every method, then the tokens with the largest scores."""
    console = plain_console()
    console.print(Text(trace_head(found), style="bold"), soft_wrap=True)
    for name, words in WAYS.items():
        console.print(Text(f"{name:<10}{strip(found.scores[name])}  {words}"), soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("token", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in WAYS:
        table.add_column(name, justify="right", no_wrap=True)
    for token in most_of(found):
        table.add_row(*cells_of(found, token))
    console.print(table)
    console.print(terms_in_words(found))


LENGTHS = ("none", "one", "two", "three", "more")


def trace_head(found: Trace) -> str:
    """The traced output."""
    if found.output is None:
        what = "the hidden state"
    else:
        said = f" {found.output_text!r}" if found.output_text else ""
        what = f"the logit of token {found.output}{said} ({found.target:.3f})"
    place = _text(found, found.position)
    return f"{_named(found.model)}: {what} at token {found.position}{place} of {found.inputs}"


def terms_in_words(found: Trace) -> str:
    """How the terms sum to the output."""
    total = float(found.scores["operator"].sum())
    sums = found.lengths.sum(axis=1)
    least = 1e-12 * float(np.abs(sums).max())  # longer paths than the model has are rounding errors
    named = [(name, term) for name, term in zip(LENGTHS, sums, strict=True) if abs(term) > least]
    split = ", ".join(f"{name} {term:.3g}" for name, term in named)
    return (
        f"operator: tokens {total:.4g} and constants {found.constant:.4g} sum to the target "
        f"{found.target:.4g} (error {found.error:.0e}); by number of heads on the path: {split}"
    )


def strip(values: Array) -> str:
    """One character for each token: the absolute value.

    >>> strip(np.array([0.0, 0.5, -1.0]))
    ' ▄█'
    """
    size = np.abs(values)
    top = max(float(size.max()), 1e-300)
    return "".join(_BLOCKS[round(float(value) / top * (len(_BLOCKS) - 1))] for value in size)


def most_of(found: Trace) -> list[int]:
    """The tokens with the largest scores by any method, in the order of the text."""
    sizes = [np.abs(v) / max(float(np.abs(v).max()), 1e-300) for v in found.scores.values()]
    top = np.argsort(-np.max(sizes, axis=0), kind="stable")[:_MOST]
    return sorted(int(token) for token in top)


def cells_of(found: Trace, token: int) -> list[str]:
    """A row of the table."""
    numbers = [found.scores[name][token] for name in WAYS]
    return [
        str(token),
        found.words[token].strip() if found.words else "",
        *(f"{float(number):.3g}" for number in numbers),
    ]


def _text(found: Trace, token: int) -> str:
    return f" ({found.words[token]!r})" if found.words else ""
