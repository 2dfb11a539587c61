"""Findings on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from segre.finding import GROUPS, Finding, Symmetry
from segre.geometry.recovery.answer import Recovered
from segre.geometry.same import Comparison
from segre.geometry.strata import Stratum
from segre.geometry.symmetry_table import SymmetryTable
from segre.report.console import plain_console
from segre.reproduce.normalized_dimension import Row

_WIDE = 400
_LONG = 100_000  # from here on thousands are marked
_COLOURS = {"proved": "green", "lower-bound": "yellow", "upper-bound": "yellow", "estimate": "red"}


Lines = list[tuple[str, str, str | Text]]


def print_finding(found: Finding) -> None:
    """The dimension, how it is known, and what the rest of the parameters do."""
    number = "{:,}".format if found.parameters >= _LONG else str
    lines: Lines = [
        ("dimension", _value(found, number), _status(found)),
        ("parameters", number(found.parameters), ""),
    ]
    for name, bound, evidence in (
        ("lower bound", found.lower, found.lower_evidence),
        ("upper bound", found.upper, found.upper_evidence),
        ("estimate", found.estimate, found.estimate_evidence),
    ):
        if bound is not None and evidence is not None:
            lines.append((name, number(bound), evidence.statement))
    if found.redundancy is not None:
        lines += _redundancy_lines(found, number)
    elif found.symmetries:
        total = sum(symmetry.dimension for symmetry in found.symmetries)
        known = found.status == "proved" and total == found.fiber_dimension
        name = "fiber" if known else "symmetries"
        lines.append((name, number(total), "dimensions of weights with the same function:"))
        lines += [("", number(s.dimension), f"{s.name}, {s.where}") for s in found.symmetries]
    lines += [("note", "", note) for note in found.notes]
    console = plain_console()
    console.print(Text(str(found.spec), style="bold cyan"), soft_wrap=True)
    _print_lines(console, lines)


def _redundancy_lines(found: Finding, number: Callable[[int], str]) -> Lines:
    """Redundant parameters of a transformer, by piece; what is alike in many layers is one line."""
    redundancy = found.redundancy
    assert redundancy is not None
    share = f"{redundancy['total'] / found.parameters:.3%}".replace("%", " %")
    words = f"parameters ({share}) do not change the function:"
    lines: Lines = [("redundant", number(redundancy["total"]), words)]
    for group in GROUPS:
        named: dict[str, list[Symmetry]] = {}
        for symmetry in found.symmetries:
            if symmetry.group == group:
                named.setdefault(symmetry.name + _when(symmetry), []).append(symmetry)
        if len(named) > 1:
            lines.append((group, number(redundancy["pieces"][group]), ""))
        for name, alike in named.items():
            places = list(dict.fromkeys(symmetry.where for symmetry in alike))
            kind = "layers" if all(place.startswith("layer ") for place in places) else "places"
            where = places[0] if len(places) == 1 else f"{len(places)} {kind}"
            total = number(sum(symmetry.dimension for symmetry in alike))
            lines.append((group if len(named) == 1 else "", total, f"{name}, {where}"))
    return lines


def _when(symmetry: Symmetry) -> str:
    words = {"eps=0": " (only at eps = 0)", "softmax": " (only after the output softmax)"}
    return words.get(symmetry.holds, "")


def print_comparison_table(names: Sequence[str], found: Sequence[Finding]) -> None:
    """One line for each transformer: its parameters, and which of them are redundant."""
    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for title in ("parameters", *GROUPS, "redundant", "%"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, one in zip(names, found, strict=True):
        redundancy = one.redundancy or {"pieces": dict.fromkeys(GROUPS, 0), "total": 0}
        share = 100 * redundancy["total"] / one.parameters
        pieces = [f"{redundancy['pieces'][group]:,}" for group in GROUPS]
        table.add_row(
            name, f"{one.parameters:,}", *pieces, f"{redundancy['total']:,}", f"{share:.3f}"
        )
    # as wide as it is: numbers are not cut, whatever the terminal
    plain_console(_WIDE).print(table, crop=False)


def _print_lines(console: Console, lines: list[tuple[str, str, str | Text]]) -> None:
    """Name, number and sentence in columns; long sentences wrap under themselves."""
    named = max(len(name) for name, _, _ in lines)
    numbered = max(len(number) for _, number, _ in lines)
    margin = named + numbered + 4
    for name, number, sentence in lines:
        head = Text(f"{name:<{named}}  {number:>{numbered}}  ")
        head.stylize("bold", 0, named)
        if isinstance(sentence, Text):
            console.print(head.append_text(sentence), soft_wrap=True)
            continue
        first, *rest = textwrap.wrap(
            sentence,
            max(30, console.width - margin),
            break_long_words=False,  # specs are to be copied
            break_on_hyphens=False,
        ) or [""]
        head.append(first)
        head.rstrip()
        console.print(head, soft_wrap=True)
        for line in rest:
            console.print(" " * margin + line, soft_wrap=True)


def print_symmetries(table: SymmetryTable) -> None:
    """Every symmetry, its dimension, and what gradient flow keeps constant because of it."""
    console = plain_console()
    console.print(Text(str(table.spec), style="bold cyan"), soft_wrap=True)
    for row in table.rows:
        console.print(f"{row.dimension:>5}  {row.name}, {row.where}", soft_wrap=True)
        if row.formula is not None:
            console.print(
                f"       conserved: {row.formula} ({_counted(row.count)})", soft_wrap=True
            )
        else:
            console.print(f"       no conserved quantity: {row.reason}", soft_wrap=True)
    console.print(
        f"{table.dimension:>5}  dimensions of weights with the same function, of "
        f"{table.spec.parameters} parameters"
    )
    console.print(f"{table.independent:>5}  independent numbers that gradient flow conserves")


def _counted(numbers: int) -> str:
    return "one number" if numbers == 1 else f"{numbers} numbers"


def print_comparison(found: Comparison) -> None:
    """The verdict and what it rests on."""
    console = plain_console()
    proved = "proved" if found.proved else "not proved"
    colour = {"same": "green", "different": "red", "undecided": "yellow"}[found.verdict]
    head = Text(found.verdict, style=f"bold {colour}")
    console.print(head.append(f" ({proved}): {found.reason}", style="default"), soft_wrap=True)
    for name, value in (
        ("normal forms differ by", found.normal_form_residual),
        ("outputs differ by", found.output_residual),
        ("largest condition number", found.condition),
    ):
        if value is not None and not found.proved:
            console.print(f"  {name} {value:.1e}")
    if found.first_difference is not None:
        console.print(f"  first difference: {found.first_difference.invariant}", soft_wrap=True)


def print_stratum(found: Stratum) -> None:
    """What kind of point it is, and the numbers behind it."""
    why = f": {', '.join(found.reasons)}" if found.reasons else ""
    lines: list[tuple[str, str, str | Text]] = [
        ("point", "", f"{found.kind}{why}"),
        ("boundary", "", "yes: real weights reach one side only" if found.boundary else "no"),
        ("rank of V", str(found.rank_V), f"of at most {min(found.d, found.d_out)}"),
        ("rank of A", str(found.rank_A), f"of at most {min(found.a, found.d)}"),
        ("dimension", str(found.dimension), "of the space of functions"),
        ("tangent", str(found.tangent), "dimensions at these weights"),
        ("tangents", str(found.tangent_span), "dimensions over all weights of the fiber"),
    ]
    lines += [("fiber" if not n else "", "", part) for n, part in enumerate(found.fiber)]
    lines.append(("arithmetic", "", "exact" if found.exact else "float64, tolerance 1e-9"))
    _print_lines(plain_console(), lines)


def print_recovered(found: Recovered) -> None:
    """The matrices found, how well, and how."""
    console = plain_console()
    lines: list[tuple[str, str, str | Text]] = [
        ("recovered", "", f"{found.spec} ({found.status}, {found.inputs} inputs)"),
        ("residual", "", f"{found.residual:.1e} (relative)"),
    ]
    if found.error is not None:
        lines.append(("error", "", f"about {found.error:.1e} (relative, estimated)"))
    if found.success_rate is not None:
        rate = f"{found.success_rate:.0%} of {found.starts} starts found it"
        lines.append(("starts", "", rate))
    lines += [("note", "", note) for note in found.notes]
    _print_lines(console, lines)
    document = found.document()
    for number, head in enumerate(document["heads"], 1):
        label = f" of head {number}" if len(document["heads"]) > 1 else ""
        for name in ("V", "A"):
            _print_matrix(console, f"{name}{label}", head[name])
    for number, matrix in enumerate(document["products"]):
        _print_matrix(console, f"M_{number}" if number else "L", matrix)
    for head in document["alternatives"]:
        for name in ("V", "A"):
            _print_matrix(console, f"{name} of the other pair with this function", head[name])


def _print_matrix(console: Console, name: str, rows: list[list[Any]]) -> None:
    cells = [[x if isinstance(x, str) else f"{x:.6g}" for x in row] for row in rows]
    width = max(len(cell) for row in cells for cell in row)
    console.print(f"{name} =")
    for row in cells:
        console.print("  " + "  ".join(f"{cell:>{width}}" for cell in row), soft_wrap=True)


def _value(found: Finding, number: Callable[[int], str]) -> str:
    """The dimension as far as it is known: a bound is said to be one."""
    if found.value is not None:
        return number(found.value)
    if found.lower is not None and found.upper is not None:
        return f"{number(found.lower)}..{number(found.upper)}"
    for words, bound in (
        ("at least", found.lower),
        ("at most", found.upper),
        ("about", found.estimate),
    ):
        if bound is not None:
            return f"{words} {number(bound)}"
    raise AssertionError("a finding has a bound or an estimate")


def _status(found: Finding) -> Text:
    words = {
        "proved": "proved",
        "lower-bound": "between two proved bounds",
        "upper-bound": "a proved upper bound",
        "estimate": "an estimate, not proved",
    }
    text = words[found.status]
    if found.upper_evidence is not None and found.upper_evidence.kind == "counted-symmetries":
        text = "counted by formulas, not computed"
    return Text(text, style=_COLOURS[found.status])


def print_normalized_dimension(rows: Sequence[Row]) -> None:
    """The table of the paper's numerical experiment."""
    console = plain_console()
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
