"""The pages of `segre diagnose` and `segre trace`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from segre import __version__
from segre.inspect.diagnose import Diagnosis
from segre.inspect.trace import WAYS, Trace
from segre.report.analysis.charts import heat_map, lines
from segre.report.cards.inspection import table_of_trace
from segre.report.inspection import control_in_words, head_of, terms_in_words, trace_head
from segre.report.inspection_blocks import findings_block, heads_block
from segre.report.page.blocks import Figure, Page, Row, Section, Table, Tile
from segre.report.page.render import write_page
from segre.values import listed


def write_diagnosis(found: Diagnosis, path: Path, made: str = "", command: str = "") -> None:
    """The diagnosis as one HTML file."""
    write_page(page_of(found, made, command), path)


def write_trace(found: Trace, path: Path, made: str = "", command: str = "") -> None:
    """The trace as one HTML file."""
    write_page(trace_page(found, made, command), path)


def page_of(found: Diagnosis, made: str = "", command: str = "") -> Page:
    """The findings, then one map of layers and heads, and curves over depth."""
    control = "" if found.control_findings is None else f" {control_in_words(found)}"
    sections = [
        Section.measured(
            "findings",
            "What stands out",
            found.in_words + control,
            f"One forward pass on {found.tokens} tokens of {found.inputs}, in double precision.",
            command,
            *findings_block(found),
            *_effects(found),
        ),
        Section.measured(
            "heads",
            "Layers and heads",
            "Choose a measure above the map, and a head on the map or in the table below it.",
            "All numbers come from the same forward pass.",
            command,
            heads_block(found),
            _meanings(found, "head"),
        ),
        Section.measured(
            "depth",
            "By depth",
            "Measures of the residual stream before the first layer and after each layer.",
            "All numbers come from the same forward pass.",
            command,
            Row(tuple(_curves(found))),
            _meanings(found, "depth"),
        ),
    ]
    return Page(
        title="Anomalies in this model",
        subtitle=head_of(found),
        tiles=tuple(_tiles(found)),
        sections=tuple(sections),
        document=found.document(),
        command=command,
        made=", ".join(word for word in (f"segre {__version__}", made) if word),
    )


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


def _effects(found: Diagnosis) -> Iterator[Table]:
    if found.effects:
        rows = tuple((one.what, one.loss, one.sinks, one.apart) for one in found.effects)
        columns = ("intervention", "loss", "sink heads", "change of outputs")
        note = "The third row and those after it are controls: the same change at other places."
        yield Table("effects", "Interventions", columns, rows, (False, True, True, True), note)


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


def trace_page(found: Trace, made: str = "", command: str = "") -> Page:
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
        command,
        strip,
        table_of_trace(found),
    )
    return Page(
        title="Which tokens this output comes from",
        subtitle=trace_head(found),
        tiles=(),
        sections=(section,),
        document=found.document(),
        command=command,
        made=", ".join(word for word in (f"segre {__version__}", made) if word),
    )
