"""The answers of `segre model diagnose` and `trace`; `inspection_page` has their plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measure import Finding
from segre.inspect.trace import WAYS, Trace
from segre.report.blocks import Block, Cell, Items, Say, Table, Title, elsewhere, terminal
from segre.report.views import tabled, view

_BLOCKS = " ▁▂▃▄▅▆▇█"
_MOST = 12  # tokens that are listed
LENGTHS = ("none", "one", "two", "three", "more")


@view.register
def of_diagnosis(found: Diagnosis) -> Iterator[Block]:
    """The findings, then one line for every measure."""
    yield Title(head_of(found), found.status, style="bold")
    if not found.findings:
        yield Say(found.in_words)
    yield findings_block(found)
    if found.control_findings is not None:
        yield Say(control_in_words(found))
    yield Say()
    names = ("smallest", "median", "largest", "at", *["random"] * bool(found.control))
    numeric = (False, *[True] * len(names))
    yield Table("measures", "", ("measure", *names), rows_of(found), numeric, wraps=("measure",))
    if found.effects:
        yield Say()
        yield effects_of(found)


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


def findings_block(found: Diagnosis) -> Items:
    """The findings, the most important first."""
    items = tuple(f"{one.what}\n{one.means}{beside(one)}" for one in found.findings)
    return Items("", items, numbered=True)


def rows_of(found: Diagnosis) -> tuple[tuple[Cell, ...], ...]:
    """Every measure: smallest, median, largest, and where that is."""
    rows: list[tuple[Cell, ...]] = []
    for one in found.measured:
        values = found.values[one.key]
        place = np.unravel_index(int(values.argmax()), values.shape)
        at = {
            "depth": f"depth {place[0]}",
            "layer": f"layer {place[0] + 1}",
            "head": f"head {'.'.join(str(n + 1) for n in place)}",
        }[one.axis]
        numbers = [float(values.min()), float(np.median(values)), float(values.max())]
        row = [one.title, *(f"{number:>8.3g}" for number in numbers), f"{at:>8}"]
        if found.control:
            twin = found.control.get(one.key)
            row.append(f"{'' if twin is None else f'{float(twin.max()):.3g}':>8}")
        rows.append(tuple(row))
    return tuple(rows)


def effects_of(found: Diagnosis) -> Table:
    """The effect of interventions."""
    rows = tuple(
        (one.what if n < 2 else f"control: {one.what}", one.loss, one.sinks, one.apart)
        for n, one in enumerate(found.effects)
    )
    names = ("intervention", "loss", "sink heads", "change of outputs")
    numeric = (False, True, True, True)
    return Table("effects", "Interventions", names, rows, numeric, formats=("", ".3f", "", ".2g"))


@tabled.register
def table_of_diagnosis(found: Diagnosis) -> Table:
    """One row for each finding."""
    rows = tuple(
        (one.measure, one.what, one.size, one.typical, one.control, one.depth, one.layer)
        for one in found.findings
    )
    columns = ("measure", "finding", "size", "median", "random", "depth", "layer")
    numeric = (False, False, True, True, True, True, True)
    return Table("findings", "What stands out", columns, rows, numeric)


@view.register
def of_trace(found: Trace) -> Iterator[Block]:
    """A strip for every method, then the tokens with the largest scores."""
    yield Title(trace_head(found), found.status, style="bold")
    for name, words in WAYS.items():
        yield terminal(Say(f"{name:<10}{strip(found.scores[name])}  {words}", wrap=False))
    yield Say()
    rows = tuple(cells_of(found, token) for token in most_of(found))
    names = ("token", "", *WAYS)
    numeric = (True, False, *[True] * len(WAYS))
    yield terminal(
        Table("tokens", "", names, rows, numeric, formats=("", "", *[".3g"] * len(WAYS)))
    )
    yield elsewhere(table_of_trace(found))
    yield Say(terms_in_words(found))


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


def cells_of(found: Trace, token: int) -> tuple[Cell, ...]:
    """A row of the table."""
    numbers = (float(found.scores[name][token]) for name in WAYS)
    return (token, found.words[token].strip() if found.words else "", *numbers)


def _text(found: Trace, token: int) -> str:
    return f" ({found.words[token]!r})" if found.words else ""


@tabled.register
def table_of_trace(found: Trace) -> Table:
    """One row for each token."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            token,
            found.words[token] if found.words else "",
            *(float(found.scores[name][token]) for name in WAYS),
            *(float(term) for term in found.lengths[:, token]),
        )
        for token in range(len(found.ids))
    )
    columns = ("token", "text", *WAYS, *LENGTHS)
    numeric = tuple(name != "text" for name in columns)
    return Table("trace", "Contributions of tokens", columns, rows, numeric)
