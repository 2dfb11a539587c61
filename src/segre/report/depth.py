"""Rank against depth: the plots of `segre collapse`, and the section of `segre analyze`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan, log10
from typing import Any, Unpack

import numpy as np

from segre.analysis.part import Part
from segre.collapse.curves import Curve, Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study, medians
from segre.collapse.variants import ALONE, FULL
from segre.collapse.verdict import THRESHOLD
from segre.fields.interface import Array
from segre.report.blocks import Blocks, Facts, Figure, Fold, Items, Row, Table, table
from segre.report.charts import About, Number, lines, residuals
from segre.values import from_logarithm

Found = Curves | Study | MechanismStudy
_LOGS = "log10 of the relative residual"


def logs_of(found: Found) -> Table:
    """Decimal logarithms of the relative residual, after every layer."""
    columns: dict[str, list[Number]]
    if isinstance(found, Study):
        names = ("with skips", "without skips")
        columns = {names[not found.skip]: _medians(found.own.relative)}
        if found.other is not None:
            columns[names[found.skip]] = _medians(found.other.relative)
    elif isinstance(found, MechanismStudy):
        columns = {"as it is": _medians(found.relative)}
    else:
        columns = {str(curve.variant): _known(curve.log10) for curve in found.curves}
    rows = tuple(zip(range(found.layers + 1), *columns.values(), strict=True))
    title = f"{_LOGS}, after every layer"
    return Table(title, ("layer", *columns), rows, (True,) * (len(columns) + 1))


def _medians(values: Array) -> list[Number]:
    return _known(medians(values))


def _known(values: Array) -> list[Number]:
    return [float(value) if isfinite(value) else None for value in values]


def plots(found: Found) -> Blocks:
    """Residuals by layer: of a random stack, or of a model and its variants."""
    if isinstance(found, Study):
        yield from _against_bounds(found)
    elif isinstance(found, MechanismStudy):
        yield _by_layer(f"Residuals of {found.spec}", found)
        yield lines(
            "Exponent for nearly equal tokens",
            range(found.layers + 1),
            {
                "from properties": [None, *(step.expected for step in found.steps)],
                "measured": [None, *(step.relative for step in found.steps)],
            },
            y="exponent",
            span=(-0.3, 3.5),
            dotted=("from properties",),
        )
    else:
        floored = any(curve.floored is not None for curve in found.curves)
        note = f"Below {found.floor:.1e}: the first input, beyond single precision." * floored
        title = f"{found.model['model']}, {found.model['weights']} weights"
        plain = _by_variant(found.curves, title, note=note)
        bands = tuple(_band(curve, number) for number, curve in enumerate(found.curves))
        yield replace(plain, traces=(*plain.traces, *bands))


def _by_variant(curves: Sequence[Curve], title: str, **about: Unpack[About]) -> Figure:
    """Relative residuals by layer: a line for each variant, and one without what dominates it."""
    left_out = {
        f"{curve.variant.words}, without {curve.sink.name}": _known(curve.mean("without"))
        for curve in curves
        if curve.sink is not None
    }
    return residuals(
        {**{curve.variant.words: known_residuals(curve) for curve in curves}, **left_out},
        dashed=[curve.variant.words for curve in curves if not curve.variant.norm],
        dotted=list(left_out),
        title=title,
        **about,
    )


def known_residuals(curve: Curve) -> list[Number]:
    """Mean relative residuals by layer, as far as floats go."""
    return [None if log is None or log < -300 else 10.0**log for log in _known(curve.log10)]


def _band(curve: Curve, number: int) -> dict[str, object]:
    """The spread over inputs, as far as single precision goes."""
    values = curve.values["relative"][: curve.floored]
    layers = list(range(len(values)))
    low, high = _known(values.min(axis=-1)), _known(values.max(axis=-1))
    return {
        "type": "scatter",
        "x": [*layers, *layers[::-1]],
        "y": [*low, *high[::-1]],
        "fill": "toself",
        "fillcolor": f"@{1 + number % 8}/0.2",
        "line": {"color": f"@{1 + number % 8}", "width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _against_bounds(found: Study) -> Blocks:
    """Logarithms of residuals by layer, and the ratios that tend to 3."""
    series = {
        "measured": _medians(found.own.residual),
        "one step": [None, *_medians(found.bounds.step)],
        "theorem": [None, *_medians(found.bounds.theorem)],
    }
    if found.other is not None:
        series["without skips" if found.skip else "with skips"] = _medians(found.other.residual)
    layers = range(found.layers + 1)
    yield lines(
        f"Residuals of {found.spec}",
        layers,
        series,
        y="log10 of the residual",
        dashed=("one step",),
        dotted=("theorem",),
    )
    orders = _medians(found.own.orders) if found.layers > 1 else []
    yield lines(
        "Order: ratio of consecutive steps of the logarithm",
        layers,
        {"measured": [None, None, *orders][: len(layers)], "3": [3.0] * len(layers)},
        y="order",
        span=(0, 4),
        dotted=("3",),
    )


def _by_layer(title: str, found: Study | MechanismStudy, **about: Unpack[About]) -> Figure:
    """Logarithms of relative residuals by layer."""
    logs = logs_of(found)
    layers, *curves = zip(*logs.rows, strict=True)
    series: Any = dict(zip(logs.columns[1:], curves, strict=True))
    return lines(title, layers, series, y=_LOGS, **about)


# --- a section of an analysis -------------------------------------------------------------------


def section(part: Part) -> Blocks:
    """The curves, and on what they were measured."""
    if isinstance(part.details, Curves):
        yield from _of_model(part, part.details)
        return
    yield _by_layer(
        "How different tokens are, by layer",
        part.details,
        takeaway=part.takeaways["depth"],
        note="Medians over inputs. Near 0, tokens have nothing in common; far below 0, all of them "
        "are nearly the same: the rank has collapsed.",
    )
    if part.notes:
        yield Items("", part.notes)


def _of_model(part: Part, found: Curves) -> Blocks:
    every = sorted(found.curves, key=lambda curve: curve.variant != FULL)
    plain = [curve for curve in every if curve.variant == curve.variant.plain]
    removed = _by_variant(
        plain,
        "How different tokens are, by layer",
        takeaway=part.takeaways["depth"],
        note="1 means that tokens have nothing in common, 0 that all of them are the same: the "
        "rank has collapsed. Dashed lines are without norms. "
        f"Below {found.floor:.1e} single precision has only rounding errors, so mean and "
        "residual are carried apart there, for the first input. A line ends where that is not "
        "possible, or where numbers vanish or are not finite. Dotted lines leave out a token that "
        "dominates.",
    )
    changed = [curve for curve in every if curve.variant.plain == ALONE or curve.variant == FULL]
    what_if = residuals(
        {curve.variant.words: known_residuals(curve) for curve in changed},
        title="What if attention were different?",
        takeaway=part.takeaways.get("what-if", ""),
        note="Attention only, without skips and MLPs, as it is and changed. Uniform part removed: "
        "1/t is subtracted from every weight of a pattern of t tokens. Window: a token sees at "
        "most that many tokens. Random gates: what heads mix is multiplied by sigmoid(W_G x); the "
        "model was not trained with gates, and W_G is random.",
    )
    yield Row((removed, what_if)) if len(every) > len(plain) else removed
    notes = (Items("In words, by the names that commands use", part.notes),) * bool(part.notes)
    yield Fold("All versions, one by one", (*_versions(part.found, found), *notes))


def _versions(data: Any, found: Curves) -> Blocks:
    """What becomes of each version, and on what that was measured."""
    known = {str(curve.variant): known_residuals(curve) for curve in found.curves}
    words = {
        None: "cannot be judged",
        False: "stay different",
        True: "become alike from layer {} on",
    }

    def outcome(version: Mapping[str, Any]) -> str:
        return words[version["collapses"]].format(version["from_layer"])

    yield table(
        "Relative residual, and what becomes of it",
        data["versions"],
        ("version", lambda one: one["words"]),
        ("before layer 1", lambda one: known[one["variant"]][0]),
        ("after the last layer", lambda one: known[one["variant"]][-1]),
        ("tokens", outcome),
        ("name in commands", lambda one: one["variant"]),
        numeric=(False, True, True, False, False),
    )
    inputs = data["inputs"]
    seed = "" if data["seed"] is None else f"seed {data['seed']}"
    dominant = (
        (
            f"token {curve.sink.position}",
            round(curve.sink.factor, 1),
            f"times the median norm of tokens, after layer {curve.sink.layer} (`{curve.variant}`)",
        )
        for curve in found.curves
        if curve.sink is not None
    )
    yield Facts(
        (
            ("weights", data["weights"], seed),
            ("inputs", inputs["count"], f"{inputs['kind']}, up to {inputs['length']} tokens"),
            *dominant,
        )
    )


def verdict(data: Mapping[str, Any]) -> tuple[str, str]:
    """Whether tokens stay different, in a word or two, and what was measured."""
    full: Mapping[str, Any] = {"sink": None}
    if data["kind"] == "stack":
        logs = np.array(data["log10"]["relative"], float)
        weights, last = "random", float(medians(logs)[-1])
        shown = from_logarithm(last)
    else:
        full = next(curve for curve in data["curves"] if curve["variant"] == "full")
        log = full["log10"][-1]
        weights, last = data["weights"], float("nan") if log is None or log < -300 else log
        shown = f"{10.0**last:.2g}"
    if isnan(last):
        return "cannot be judged", f"numbers are lost; {weights} weights"
    said = f"relative residual {shown}"
    if full["sink"] is not None:
        without = full["without"]["mean"][-1]
        said += f", or {without:.2g} without token {full['sink']['position']}"
    word = "become alike" if last < log10(THRESHOLD) else "stay different"
    return word, f"{said}; {weights} weights"
