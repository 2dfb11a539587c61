"""The pages of `segre model diagnose` and `trace`, and the map of heads of every report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.inspect.trace import WAYS, Trace
from segre.report.blocks import Figure, Page, Row, Section, Table, Tile
from segre.report.charts import by_head, heat_map, lines, switched
from segre.report.inspection import (
    control_in_words,
    effects_of,
    findings_block,
    head_of,
    table_of_trace,
    terms_in_words,
    trace_head,
)
from segre.report.views import paged
from segre.values import listed

_MOST = 2000  # rows of the table of heads; the document has them all
_PASS = "All numbers come from the same forward pass."
_CONTROLS = "The third row and those after it are controls: the same change at other places."


@paged.register
def page_of_diagnosis(found: Diagnosis) -> Page:
    """The findings, then one map of layers and heads, and curves over depth."""
    control = "" if found.control_findings is None else f" {control_in_words(found)}"
    sections = (
        Section.measured(
            "findings",
            "What stands out",
            found.in_words + control,
            f"One forward pass on {found.tokens} tokens of {found.inputs}, in double precision.",
            "",
            findings_block(found),
            *((replace(effects_of(found), note=_CONTROLS),) if found.effects else ()),
        ),
        Section.measured(
            "heads",
            "Layers and heads",
            "Choose a measure above the map, and a head on the map or in the table below it.",
            _PASS,
            "",
            heads_block(found),
            _meanings(found, "head"),
        ),
        Section.measured(
            "depth",
            "By depth",
            "Measures of the residual stream before the first layer and after each layer.",
            _PASS,
            "",
            Row(tuple(_curves(found))),
            _meanings(found, "depth"),
        ),
    )
    return Page("Anomalies in this model", head_of(found), tuple(_tiles(found)), sections)


def head_measures(found: Diagnosis) -> dict[str, Array]:
    """All measures of heads by their titles: (layers, heads) each."""
    return {one.title: found.values[one.key] for one in found.measured if one.axis == "head"}


def heads_block(
    found: Diagnosis | None,
    takeaway: str = "",
    more: Mapping[str, Array] | None = None,
    columns: Mapping[str, Array] | None = None,
) -> Figure:
    """One map of layers and heads, with a switch between measures and a panel for one head.

    `more` are measures that come first; `columns` are numbers that only the table has.
    """
    values = {**(more or {}), **({} if found is None else head_measures(found))}
    maps = {
        title: by_head(title, title, title, "", _rows(own), what="")
        for title, own in values.items()
    }
    alt = "A map of layers and heads, coloured by the chosen measure."
    numbers = _table({**(columns or {}), **values})
    said = takeaway or _extremes(*next(iter(values.items())))
    figure = switched("heads", "Layers and heads", alt, said, maps, numbers)
    details = None if found is None else found.heads
    return figure if details is None else replace(figure, heads=details.document())


def _extremes(title: str, values: Array) -> str:
    """Where the first measure of the map is largest, and how large it is elsewhere."""
    known = np.where(np.isfinite(values), values, -np.inf)
    layer, head = np.unravel_index(int(known.argmax()), known.shape)
    return (
        f"{title} is largest in head {head + 1} of layer {layer + 1}: {known.max():.3g}; the "
        f"median of all heads is {float(np.nanmedian(values)):.3g}."
    )


def _rows(values: Array) -> list[list[float]]:
    return [[float(value) for value in row] for row in values]


def _table(values: Mapping[str, Array]) -> Table:
    shape: Sequence[int] = next(iter(values.values())).shape
    rows = tuple(
        (layer + 1, head + 1, *(float(own[layer, head]) for own in values.values()))
        for layer, head in np.ndindex(*shape)
    )
    count = len(rows)
    title = f"The first {_MOST} of {count} heads" if count > _MOST else f"All {count} heads"
    names = ("layer", "head", *values)
    return Table("heads-numbers", title, names, rows[:_MOST], (True,) * len(names))


def _meanings(found: Diagnosis, axis: str) -> Table:
    rows = tuple((one.title, one.how) for one in found.measured if one.axis == axis)
    title = "What the measures mean"
    return Table(f"{axis}-meanings", title, ("measure", "how it is computed"), rows, folded=True)


def _tiles(found: Diagnosis) -> Iterator[Tile]:
    yield Tile("findings", str(len(found.findings)), "measured", f"on {found.tokens} tokens")
    if found.loss is not None:
        yield Tile("loss", f"{found.loss:.3f}", "measured", "nats per token")
    spikes = found.values["spikes"]
    yield Tile(
        "largest activation", f"{spikes.max():,.0f}", "measured", "times the median of its stream"
    )
    if "sinks" in found.values:
        sinks = found.values["sinks"]
        words = f"{int((sinks > 0.3).sum())} of {sinks.size}"
        yield Tile("sink heads", words, "measured", "give more than 30 % to one token")


def _curves(found: Diagnosis) -> Iterator[Figure]:
    """One plot for each measure of the stream, with random weights for comparison."""
    for one in found.measured:
        if one.axis != "depth":
            continue
        values = found.values[one.key]
        series = {"this model": [float(value) for value in values]}
        if one.key in found.control:
            series["random weights"] = [float(value) for value in found.control[one.key]]
        yield lines(
            one.key,
            one.title,
            f"A line over depth: {one.title}.",
            _course(one.title, series),
            range(len(values)),
            series,
            y=one.title,
            log=bool(values.min() > 0 and values.max() / values.min() > 30),
            first="depth",
            dashed=("random weights",),
            height=280,
        )


def _course(title: str, series: Mapping[str, Sequence[float]]) -> str:
    """Where a measure begins, ends and is largest."""
    own = series["this model"]
    top = max(range(len(own)), key=lambda depth: own[depth])
    peak = f", with a maximum of {own[top]:.3g} at depth {top}" if 0 < top < len(own) - 1 else ""
    said = (
        f"{title} goes from {own[0]:.3g} before the first layer to {own[-1]:.3g} at the end{peak}"
    )
    random = series.get("random weights")
    return f"{said}; with random weights it ends at {random[-1]:.3g}." if random else f"{said}."


def _agreement(found: Trace, labels: list[int | str]) -> str:
    """Which token most of the methods name, if there is one."""
    tops = Counter(int(np.abs(found.scores[way]).argmax()) for way in WAYS)
    (token, most), *others = tops.most_common()
    if others and others[0][1] == most:
        named = listed([str(labels[one]) for one, _ in sorted(tops.items())])
        return f"Methods differ in which token matters most: tokens {named}."
    return f"{most} of {len(WAYS)} methods say that token {labels[token]} matters most."


@paged.register
def page_of_trace(found: Trace) -> Page:
    """Scores of tokens by every method, and the table."""
    names = [f"{token} {word.strip()}" for token, word in enumerate(found.words)]
    labels: list[int | str] = list(names or range(len(found.ids)))
    sizes = [np.abs(found.scores[way]) for way in WAYS]
    cells = [[float(v) / max(float(row.max()), 1e-300) for v in row] for row in sizes]
    strip = heat_map(
        "strips",
        "Scores of tokens by every method, relative to the largest",
        "A map with a row for each method and a column for each token.",
        _agreement(found, labels),
        ("method", list(WAYS)),
        ("token", labels),
        cells,
        what="size",
    )
    section = Section.measured(
        "trace",
        "Contributions of tokens",
        f"{terms_in_words(found)[:1].upper()}{terms_in_words(found)[1:]}.",
        " ".join(f"{words[:1].upper()}{words[1:]}." for words in WAYS.values()),
        "",
        strip,
        table_of_trace(found),
    )
    return Page("Which tokens this output comes from", trace_head(found), (), (section,))
