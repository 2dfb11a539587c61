"""What is inside a model: anomalies, measures by depth, a map of heads, tokens behind an output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measure import Finding, Measure
from segre.inspect.trace import WAYS, Trace
from segre.report.blocks import Blocks, Figure, Items, Row, Say, Table, Tile, Title, table
from segre.report.charts import by_head, heat_map, lines
from segre.report.views import data, elsewhere, measured, on_page, terminal, tiles, view
from segre.values import listed

_MOST = 2000  # rows of the table of heads; the document has them all
_PASS = "All numbers come from the same forward pass."
_CONTROLS = "The third row and those after it are controls: the same change at other places."


@view
def of_diagnosis(found: Diagnosis) -> Blocks:
    """The findings, then one line for every measure; on a page, a map of heads and curves."""
    yield Title("Anomalies in this model", found.status, terminal=False)
    yield Title(_head(found), style="bold")
    yield tiles(*_tiles(found))
    if not found.findings:
        yield Say(found.in_words)
    yield findings_block(found)
    if found.control_findings is not None:
        yield Say(control_in_words(found))
    yield Say()
    yield _measures(found)
    if found.effects:
        yield Say()
        yield _effects(found)
    columns = ("measure", "finding: what", "size", "median: typical", "random: control")
    numeric = (False, False, *[True] * 5)
    rows = found.findings
    yield data([table("What stands out", rows, *columns, "depth", "layer", numeric=numeric)])
    yield on_page(_sections(found))


def _head(found: Diagnosis) -> str:
    """The model and its input."""
    loss = "" if found.loss is None else f", loss {found.loss:.3f} nats"
    return f"{named(found.model)} on {found.inputs} ({found.tokens} tokens{loss})"


def named(model: Mapping[str, Any]) -> str:
    """The name of a model, and whether it was trained."""
    return f"{model['model']}{' with random weights' if model['weights'] == 'random' else ''}"


def _beside(finding: Finding) -> str:
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
    items = tuple(f"{one.what}\n{one.means}{_beside(one)}" for one in found.findings)
    return Items("", items, numbered=True)


def _measures(found: Diagnosis) -> Table:
    """Every measure: smallest, median, largest, and where that is."""

    def column(least: Any) -> Any:
        return lambda one: f"{float(least(found.values[one.key])):>8.3g}"

    def random(one: Measure) -> str:
        twin = found.control.get(one.key)
        return f"{'' if twin is None else f'{float(twin.max()):.3g}':>8}"

    return table(
        "Measures",
        found.measured,
        "measure: title",
        *((name, column(of), ">") for name, of in (("smallest", np.min), ("median", np.median))),
        ("largest", column(np.max), ">"),
        ("at", lambda one: f"{_place(one, found.values[one.key]):>8}", ">"),
        *[("random", random, ">")] * bool(found.control),
        wraps=("measure",),
    )


def _place(one: Measure, values: Array) -> str:
    """Where a measure is largest."""
    place = np.unravel_index(int(values.argmax()), values.shape)
    if one.axis == "depth":
        return f"depth {place[0]}"
    return f"{one.axis} {'.'.join(str(n + 1) for n in place)}"


def _effects(found: Diagnosis) -> Table:
    """The effect of interventions; all but the first two are controls."""
    controls = {id(one) for one in found.effects[2:]}
    return table(
        "Interventions",
        found.effects,
        ("intervention", lambda one: "control: " * (id(one) in controls) + one.what),
        ("loss", "loss", ".3f"),
        ("sink heads", "sinks", "d"),
        ("change of outputs", "apart", ".2g"),
    )


def _sections(found: Diagnosis) -> Blocks:
    """The findings, then one map of layers and heads, and curves over depth."""
    control = "" if found.control_findings is None else f" {control_in_words(found)}"
    yield measured(
        "findings",
        "What stands out",
        found.in_words + control,
        f"One forward pass on {found.tokens} tokens of {found.inputs}, in double precision.",
        findings_block(found),
        *((_effects(found), Say(_CONTROLS)) if found.effects else ()),
    )
    yield measured(
        "heads",
        "Layers and heads",
        "Choose a measure above the map, and a head on the map or in the table below it.",
        _PASS,
        heads_block(found),
        _meanings(found, "head"),
    )
    yield measured(
        "depth",
        "By depth",
        "Measures of the residual stream before the first layer and after each layer.",
        _PASS,
        Row(tuple(_curves(found))),
        _meanings(found, "depth"),
    )


def heads_block(
    found: Diagnosis | None,
    takeaway: str = "",
    more: Mapping[str, Array] | None = None,
    columns: Mapping[str, Array] | None = None,
    title: str = "Layers and heads",
) -> Figure:
    """One map of layers and heads, with a switch between measures and a panel for one head.

    `more` are measures that come first; `columns` are numbers that only the table has.
    """
    values = dict(more or {})
    if found is not None:
        values |= {one.title: found.values[one.key] for one in found.measured if one.axis == "head"}
    maps = [by_head(name, rows.tolist(), what="") for name, rows in values.items()]
    return Figure(
        title,
        takeaway or _extremes(*next(iter(values.items()))),
        tuple({**one.traces[0], "visible": one is maps[0], "name": one.title} for one in maps),
        {**maps[0].layout, "meta": {"one_at_a_time": "Measure"}, "showlegend": False},
        _heads({**(columns or {}), **values}),
        maps[0].height,
        heads=None if found is None else found.heads,
    )


def _extremes(title: str, values: Array) -> str:
    """Where the first measure of the map is largest, and how large it is elsewhere."""
    known = np.where(np.isfinite(values), values, -np.inf)
    layer, head = np.unravel_index(int(known.argmax()), known.shape)
    return (
        f"{title} is largest in head {head + 1} of layer {layer + 1}: {known.max():.3g}; the "
        f"median of all heads is {float(np.nanmedian(values)):.3g}."
    )


def _heads(values: Mapping[str, Array]) -> Table:
    shape: Sequence[int] = next(iter(values.values())).shape
    rows = tuple(
        (layer + 1, head + 1, *(float(own[layer, head]) for own in values.values()))
        for layer, head in np.ndindex(*shape)
    )
    count = len(rows)
    title = f"The first {_MOST} of {count} heads" if count > _MOST else f"All {count} heads"
    names = ("layer", "head", *values)
    return Table(title, names, rows[:_MOST], (True,) * len(names))


def meanings(rows: Sequence[tuple[str, str]]) -> Table:
    """A folded table that says how measures are computed."""
    names = ("measure", "how it is computed")
    return Table("What the measures mean", names, tuple(rows), folded=True)


def _meanings(found: Diagnosis, axis: str) -> Table:
    return meanings([(one.title, one.how) for one in found.measured if one.axis == axis])


def _tiles(found: Diagnosis) -> Iterator[Tile]:
    yield Tile("findings", str(len(found.findings)), "measured", f"on {found.tokens} tokens")
    if found.loss is not None:
        yield Tile("loss", f"{found.loss:.3f}", "measured", "nats per token")
    spikes = f"{found.values['spikes'].max():,.0f}"
    yield Tile("largest activation", spikes, "measured", "times the median of its stream")
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
        series = {"this model": values.tolist()}
        if one.key in found.control:
            series["random weights"] = found.control[one.key].tolist()
        yield lines(
            one.title,
            range(len(values)),
            series,
            y=one.title,
            log=bool(values.min() > 0 and values.max() / values.min() > 30),
            first="depth",
            dashed=("random weights",),
            height=280,
            takeaway=_course(one.title, series),
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


_BLOCKS = " ▁▂▃▄▅▆▇█"
_LISTED = 12  # tokens that are listed
LENGTHS = ("none", "one", "two", "three", "more")


@view
def of_trace(found: Trace) -> Blocks:
    """A strip for every method, then the tokens with the largest scores."""
    yield Title("Which tokens this output comes from", found.status, terminal=False)
    yield Title(_traced(found), style="bold")
    for name, words in WAYS.items():
        yield terminal(Say(f"{name:<10}{strip(found.scores[name])}  {words}", wrap=False))
    yield Say()
    texts = [word.strip() for word in found.words] or [""] * len(found.ids)
    columns = [(name, found.scores[name].__getitem__, ".3g") for name in WAYS]
    most = table("Tokens", _most(found), ("token", int, "d"), ("", texts.__getitem__), *columns)
    every = _every_token(found)
    yield from (terminal(most), elsewhere(every), data([every]))
    said = terms_in_words(found)
    yield Say(said)
    yield on_page([_strips(found)])


def _traced(found: Trace) -> str:
    """The traced output."""
    if found.output is None:
        what = "the hidden state"
    else:
        said = f" {found.output_text!r}" if found.output_text else ""
        what = f"the logit of token {found.output}{said} ({found.target:.3f})"
    place = f" ({found.words[found.position]!r})" if found.words else ""
    return f"{named(found.model)}: {what} at token {found.position}{place} of {found.inputs}"


def terms_in_words(found: Trace) -> str:
    """How the terms sum to the output."""
    total = float(found.scores["operator"].sum())
    sums = found.lengths.sum(axis=1)
    least = 1e-12 * float(np.abs(sums).max())  # longer paths than the model has are rounding errors
    known = [(name, term) for name, term in zip(LENGTHS, sums, strict=True) if abs(term) > least]
    split = ", ".join(f"{name} {term:.3g}" for name, term in known)
    return (
        f"operator: tokens {total:.4g} and constants {found.constant:.4g} sum to the target "
        f"{found.target:.4g} (error {found.error:.0e}); by number of heads on the path: {split}"
    )


def strip(values: Array) -> str:
    """One character for each token: the absolute value.

    >>> strip(np.array([0.0, 0.5, -1.0]))
    ' ▄█'
    """
    return "".join(_BLOCKS[round(share * (len(_BLOCKS) - 1))] for share in _shares(values))


def _shares(values: Array) -> list[float]:
    """Absolute values, relative to the largest."""
    size = np.abs(values)
    return [float(one) for one in size / max(float(size.max()), 1e-300)]


def _most(found: Trace) -> list[int]:
    """The tokens with the largest scores by any method, in the order of the text."""
    sizes = [_shares(values) for values in found.scores.values()]
    top = np.argsort(-np.max(sizes, axis=0), kind="stable")[:_LISTED]
    return sorted(int(token) for token in top)


def _every_token(found: Trace) -> Table:
    """One row for each token."""
    every = {name: found.scores[name] for name in WAYS}
    every |= dict(zip(LENGTHS, found.lengths, strict=True))
    numbers = ((name, values.astype(float).tolist().__getitem__) for name, values in every.items())
    texts = found.words or [""] * len(found.ids)
    tokens, words = range(len(texts)), ("text", texts.__getitem__)
    numeric = (True, False, *(True,) * len(every))
    title = "Contributions of tokens"
    return table(title, tokens, ("token", int), words, *numbers, numeric=numeric)


def _agreement(found: Trace, labels: list[int | str]) -> str:
    """Which token most of the methods name, if there is one."""
    tops = Counter(int(np.abs(found.scores[way]).argmax()) for way in WAYS)
    (token, most), *others = tops.most_common()
    if others and others[0][1] == most:
        tied = listed([str(labels[one]) for one, _ in sorted(tops.items())])
        return f"Methods differ in which token matters most: tokens {tied}."
    return f"{most} of {len(WAYS)} methods say that token {labels[token]} matters most."


def _strips(found: Trace) -> Figure:
    """Scores of tokens by every method."""
    names = [f"{token} {word.strip()}" for token, word in enumerate(found.words)]
    labels: list[int | str] = list(names or range(len(found.ids)))
    return heat_map(
        "Scores of tokens by every method, relative to the largest",
        ("method", list(WAYS)),
        ("token", labels),
        [_shares(found.scores[way]) for way in WAYS],
        what="size",
        takeaway=_agreement(found, labels),
        note=" ".join(f"{name[:1].upper()}{name[1:]}: {words}." for name, words in WAYS.items()),
    )
