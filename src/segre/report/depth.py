"""Rank against depth, in numbers and plots, and the section of an analysis about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan, log10, nan
from typing import Any, Unpack

import numpy as np

from segre.analysis.part import Part
from segre.collapse.commands import Depth
from segre.collapse.curves import Curve, Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.streams import DOMINANT
from segre.collapse.study import Study, medians
from segre.collapse.variants import ALONE, FULL
from segre.collapse.verdict import THRESHOLD
from segre.fields.interface import Array
from segre.report.blocks import (
    Blocks,
    Facts,
    Figure,
    Fold,
    Items,
    Row,
    Say,
    Table,
    Tile,
    Title,
    table,
)
from segre.report.charts import About, Number, curve, lines, residuals
from segre.report.views import data, on_page, tiles, view
from segre.values import counted, from_logarithm

_ROWS = 14
_LOGS = "log10 of the relative residual"


@view
def of_depth(depth: Depth) -> Blocks:
    """The numbers by layer, then the verdict in words."""
    found = depth.found
    last = "not measured" if depth.value is None else power(depth.value)
    name = str(found.model["model"]) if isinstance(found, Curves) else found.spec
    yield Title(name, terminal=False)
    yield tiles(Tile("residual after the last layer", last, depth.status, depth.how))
    yield from _of_curves(found) if isinstance(found, Curves) else _of_stack(found)
    yield from map(Say, depth.advice)
    yield data([logs_of(found)])
    yield on_page(_plots(found))


def _of_curves(found: Curves) -> Blocks:
    """Mean relative residuals by layer and variant."""
    model, inputs = found.model, found.inputs
    yield Say(
        f"{model['model']}: {counted(model['layers'], 'layer')}, "
        f"{counted(model['heads'], 'head')}, width "
        f"{model['width']}, {model['weights']} weights; {counted(inputs['count'], 'input')} of "
        f"{inputs['length']} tokens",
        wrap=False,
    )
    yield Say("relative residual, mean over inputs (last line: its spread after the last layer):")
    rows = {
        str(layer): [_cell(curve, layer, found.floor) for curve in found.curves]
        for layer in shown_layers(found.layers)
    }
    rows["+-"] = ["" if one.floored else number(one.spread()[-1]) for one in found.curves]
    if found.fuse is not None:
        fused = (curve.fused for curve in found.curves)
        rows[found.fuse] = ["" if one is None else number(float(one.mean())) for one in fused]
    yield numbers_table(("layer", *(_short(str(x.variant)) for x in found.curves)), rows)
    if found.fuse is not None:
        yield Say(f"{found.fuse}: the streams of all layers, fused")
    past = {curve.past is not None for curve in found.curves if curve.floored is not None}
    if past:
        said = f"Below {number(found.floor)}, single precision shows only rounding errors."
        if True in past:
            said += " Numbers below it are of the first input, with mean and residual "
            said += "computed separately."
        yield Say(said + " A curve ends (<) where the layers do not allow that." * (False in past))
    yield from _sinks(found)


def numbers_table(names: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    """A table of numbers that are written already, by what its lines begin with."""
    lines = tuple((first, *cells) for first, cells in rows.items())
    return Table("", tuple(names), lines, (True,) * len(names))


def _cell(curve: Curve, layer: int, floor: float) -> str:
    """A mean; below the floor, what is known there."""
    if curve.floored is None or layer < curve.floored:
        return number(curve.mean()[layer])
    return f"<{number(floor)}" if curve.past is None else power(float(curve.past[layer]))


def _sinks(found: Curves) -> Blocks:
    """The curves without the tokens that dominate them."""
    shown = [(curve, curve.sink) for curve in found.curves if curve.sink is not None]
    for name in dict.fromkeys(sink.name for _, sink in shown):
        yield Say(
            f"{name[0].upper()}{name[1:]} dominates (in brackets: its norm over the median norm "
            "of tokens). Residuals with it, and without it where it dominates:"
        )
    names = [heading for curve, _ in shown for heading in (_short(str(curve.variant)), "without")]
    rows = {
        str(layer): [x for curve, _ in shown for x in _dominated(curve, layer, found.floor)]
        for layer in shown_layers(found.layers)
    }
    if shown:
        yield numbers_table(("layer", *names), rows)


def _dominated(curve: Curve, layer: int, floor: float) -> tuple[str, str]:
    """The residual with the token that dominates, and without it where it does."""
    factor, cell = curve.mean("factor")[layer], _cell(curve, layer, floor)
    if factor < DOMINANT or (curve.lost is not None and layer >= curve.lost):
        return cell, ""
    return f"{cell} ({factor:.0f})", number(curve.mean("without")[layer])


def shown_layers(layers: int) -> list[int]:
    """All layers; if there are many, the first ones and then evenly spaced ones.

    >>> shown_layers(12)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    >>> shown_layers(30)[-3:]
    [24, 27, 30]
    """
    if layers < _ROWS:
        return list(range(layers + 1))
    later = np.linspace(5, layers, _ROWS - 5).round().astype(int).tolist()
    return [0, 1, 2, 3, 4, *later]


def _short(name: str) -> str:
    """One part on each line, so that eight columns fit."""
    short = name.replace("attention", "attn").replace("+", "\n+").replace("-norm", "\n-norm")
    return short.replace(":", "\n:").replace("=", "\n=")


def number(value: float) -> str:
    """A number with two or three digits; - if it is not finite."""
    if not np.isfinite(value):
        return "-"
    if value == 0 or 0.01 <= value < 1000:
        return f"{value:.3f}" if value else "0"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def power(log: float) -> str:
    """A number of a table by its decimal logarithm, which may be far below the smallest float.

    >>> power(-0.5), power(-165.2), power(-8257.75)
    ('0.316', '6.3e-166', '1.8e-8258')
    """
    return number(10**log) if log > -4 or not np.isfinite(log) else from_logarithm(log)


def _of_stack(found: Study | MechanismStudy) -> Blocks:
    """Residuals of a random stack as decimal logarithms: with rates and bounds, or exponents."""
    words: dict[str, list[str]] = {}
    if isinstance(found, Study):
        arithmetic = ""
        columns = {  # their values, and the layer that the first of these is of
            "residual": (found.own.residual, 0),
            "relative": (found.own.relative, 0),
            "exponent": (found.own.exponents, 1),
            "order": (found.own.orders, 2),
            "step": (found.bounds.step, 1),
            "theorem": (found.bounds.theorem, 1),
        }
        if found.other is not None:
            columns["no skip" if found.skip else "skip"] = found.other.relative, 0
        if found.certified is not None:
            words["certified"] = [f"{value:.4f}" for value in found.certified]
        note = (
            "exponent: ratio of consecutive logarithms; order: ratio of consecutive steps (3 if "
            "every layer cubes the residual); step, theorem: the bounds"
        )
    else:
        arithmetic = f", in certified arithmetic with {found.bits} bits"
        columns = {
            "residual": (found.residual, 0),
            "relative": (found.relative, 0),
            "exponent": (found.orders, 1),
            "near alike": (np.array([step.relative for step in found.steps]), 1),
        }
        powers = (step.expected for step in found.steps)
        words["expected"] = ["", *("zero" if one is None else str(one) for one in powers)]
        note = (
            "exponent: ratio of consecutive logarithms of the relative residual; near alike: "
            "measured power p such that tokens that differ by eps have a relative residual of "
            "order eps^p after the layer; expected: this power according to the properties of the "
            "mechanisms"
        )
    many = counted(found.inputs, "input")
    yield Say(f"{found.spec}: random weights (seed {found.seed}), {many}{arithmetic}", wrap=False)
    yield Say("decimal logarithms of residuals, medians over inputs:")
    rows = {
        str(layer): [
            *(_median(values, layer - first) for values, first in columns.values()),
            *(said[layer] for said in words.values()),
        ]
        for layer in shown_layers(found.layers)
    }
    yield numbers_table(("layer", *columns, *words), rows)
    yield Say(note)


def _median(values: Array, place: int) -> str:
    """The median of a column, as far as it is known; nothing if there is no such column."""
    if not 0 <= place < values.shape[-1]:
        return ""
    known = values[..., place][np.isfinite(values[..., place])]
    return f"{np.median(known):.2f}" if known.size else "-"


# --- plots ---------------------------------------------------------------------------------------


def logs_of(found: Curves | Study | MechanismStudy) -> Table:
    """Decimal logarithms of the relative residual, after every layer."""
    columns: dict[str, Array]
    if isinstance(found, Study):
        names = ("with skips", "without skips")
        columns = {names[not found.skip]: medians(found.own.relative)}
        if found.other is not None:
            columns[names[found.skip]] = medians(found.other.relative)
    elif isinstance(found, MechanismStudy):
        columns = {"as it is": medians(found.relative)}
    else:
        columns = {str(curve.variant): curve.log10 for curve in found.curves}
    rows = tuple(zip(range(found.layers + 1), *map(_known, columns.values()), strict=True))
    title = f"{_LOGS}, after every layer"
    return Table(title, ("layer", *columns), rows, (True,) * (len(columns) + 1))


def _known(values: Array) -> list[Number]:
    return [float(value) if isfinite(value) else None for value in values]


def _plots(found: Curves | Study | MechanismStudy) -> Blocks:
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


def _band(of: Curve, number: int) -> dict[str, object]:
    """The spread over inputs, as far as single precision goes."""
    values = of.values["relative"][: of.floored]
    layers, colour = list(range(len(values))), f"@{1 + number % 8}"
    low, high = _known(values.min(axis=-1)), _known(values.max(axis=-1))
    look: dict[str, Any] = {"fill": "toself", "fillcolor": f"{colour}/0.2", "hoverinfo": "skip"}
    around = [*layers, *layers[::-1]], [*low, *high[::-1]]
    return curve(*around, colour, width=0, showlegend=False, **look)


def _against_bounds(found: Study) -> Blocks:
    """Logarithms of residuals by layer, and the ratios that tend to 3."""
    series = {
        "measured": _known(medians(found.own.residual)),
        "one step": [None, *_known(medians(found.bounds.step))],
        "theorem": [None, *_known(medians(found.bounds.theorem))],
    }
    if found.other is not None:
        series["without skips" if found.skip else "with skips"] = _known(
            medians(found.other.residual)
        )
    layers = range(found.layers + 1)
    yield lines(
        f"Residuals of {found.spec}",
        layers,
        series,
        y="log10 of the residual",
        dashed=("one step",),
        dotted=("theorem",),
    )
    orders = _known(medians(found.own.orders)) if found.layers > 1 else []
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
    found = part.details.found
    if isinstance(found, Curves):
        yield from _of_model(part, found)
        return
    yield _by_layer(
        "How different tokens are, by layer",
        found,
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
    outcomes = {**_OUTCOMES, True: "become alike from layer {} on"}

    def outcome(version: Mapping[str, Any]) -> str:
        return outcomes[version["collapses"]].format(version["from_layer"])

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


_OUTCOMES = {None: "cannot be judged", False: "stay different", True: "become alike"}


def verdict(depth: Depth) -> tuple[str, str]:
    """Whether tokens stay different, in a word or two, and what was measured."""
    found, last, without = depth.found, depth.value, ""
    weights = "random"
    if isinstance(found, Curves):
        full, weights = found[FULL], found.model["weights"]
        last = nan if last is None or last < -300 else last
        if full.sink is not None:
            mean = full.mean("without")[-1]
            without = f", or {mean:.2g} without token {full.sink.position}"
    if last is None or isnan(last):
        return _OUTCOMES[None], f"numbers are lost; {weights} weights"
    shown = f"{10.0**last:.2g}" if isinstance(found, Curves) else from_logarithm(last)
    said = f"relative residual {shown}{without}; {weights} weights"
    return _OUTCOMES[last < log10(THRESHOLD)], said
