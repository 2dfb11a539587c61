"""Findings on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from segre.finding import Finding
from segre.reproduce.normalized_dimension import Row

_COLOURS = {"proved": "green", "lower-bound": "yellow", "upper-bound": "yellow", "estimate": "red"}


def print_finding(found: Finding) -> None:
    """The dimension, how it is known, and what the rest of the parameters do."""
    lines: list[tuple[str, str, str | Text]] = [
        ("dimension", _value(found), _status(found)),
        ("parameters", str(found.parameters), ""),
    ]
    for name, bound, evidence in (
        ("lower bound", found.lower, found.lower_evidence),
        ("upper bound", found.upper, found.upper_evidence),
        ("estimate", found.value, found.estimate_evidence),
    ):
        if bound is not None and evidence is not None:
            lines.append((name, str(bound), evidence.statement))
    if found.symmetries:
        total = sum(symmetry.dimension for symmetry in found.symmetries)
        known = found.status == "proved" and total == found.fiber_dimension
        name = "fiber" if known else "symmetries"
        lines.append((name, str(total), "dimensions of weights with the same function:"))
        lines += [("", str(s.dimension), f"{s.name}, {s.where}") for s in found.symmetries]
    lines += [("note", "", note) for note in found.notes]
    console = Console(highlight=False)
    console.print(Text(str(found.spec), style="bold cyan"), soft_wrap=True)
    _print_lines(console, lines)


def _print_lines(console: Console, lines: list[tuple[str, str, str | Text]]) -> None:
    """Name, number and sentence in columns; long sentences wrap under themselves."""
    named = max(len(name) for name, _, _ in lines)
    numbered = max(len(number) for _, number, _ in lines)
    margin = named + numbered + 4
    for name, number, sentence in lines:
        head = Text(f"{name:<{named}}  {number:>{numbered}}  ")
        head.stylize("bold", 0, named)
        if isinstance(sentence, Text):
            console.print(head.append_text(sentence))
            continue
        first, *rest = textwrap.wrap(sentence, max(30, console.width - margin)) or [""]
        head.append(first)
        head.rstrip()
        console.print(head)
        for line in rest:
            console.print(" " * margin + line)


def _value(found: Finding) -> str:
    if found.status == "lower-bound" and found.upper is not None:
        return f"{found.lower}..{found.upper}"
    return str(found.value)


def _status(found: Finding) -> Text:
    words = {
        "proved": "proved",
        "lower-bound": "between two proved bounds",
        "upper-bound": "at most: a proved upper bound",
        "estimate": "estimate, not proved",
    }
    return Text(words[found.status], style=_COLOURS[found.status])


def print_normalized_dimension(rows: Sequence[Row]) -> None:
    """The table of the paper's numerical experiment."""
    console = Console(highlight=False)
    console.print("Dimension of two attention layers, t = 3, a = 2; every column is computed.")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kind")
    for heading in ("d", "parameters", "conjectured", "certified", "float64", "gap", "float32"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.kind,
            str(row.d),
            str(row.parameters),
            str(row.conjectured),
            str(row.certified) if row.status == "proved" else f">={row.certified}",
            _against(row.float64, row.certified),
            f"{row.float64_gap:.0e}",
            _against(row.float32, row.certified),
        )
    console.print(table)
    proved = sum(row.status == "proved" for row in rows)
    agree = sum(row.certified == row.conjectured for row in rows if row.status == "proved")
    console.print(f"{proved} of {len(rows)} proved; {agree} of them equal the conjecture.")
    console.print("float64, float32: ranks of floating-point Jacobians, which are estimates.")


def _against(estimate: int, certified: int) -> Text:
    return Text(str(estimate), style="" if estimate == certified else "bold red")
