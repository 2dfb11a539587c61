"""Facts about a checkpoint: counted by formulas, and measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import log10
from types import SimpleNamespace

from segre.analysis.heads import products
from segre.checkpoint.info import Info, LayerInfo, Product
from segre.finding import GROUPS, Finding
from segre.report.blocks import Blocks, Cell, Fact, Facts, Figure, Fold, Say, Table, Title, table
from segre.report.charts import Number, by_head, lines
from segre.report.dimensions import ONLY, share
from segre.report.views import data, on_page, view

_FACTORS = {"OV": "W_O W_V", "QK": "W_Q' W_K"}
_MOST_SPECIAL = 8  # lines about special points


@view
def of_info(info: Info) -> Blocks:
    """What it is, what is redundant, and its layers."""
    yield Title(str(info.spec))
    yield Facts((*_what(info), *_redundant(info)))
    yield Say()
    yield from _measured(info)
    yield from _special(info.layers)
    yield data([_every_head(info)])
    yield on_page(_plots(info))


def _what(info: Info) -> Iterator[Fact]:
    yield "checkpoint", "", f"{info.name}, family {info.family}"
    yield "parameters", info.parameters, "distinct"
    if info.stored != info.parameters:
        yield "", info.stored, "stored"
    order = sorted(info.types.items(), key=lambda item: -item[1])
    types = ", ".join(f"{count:,} of type {name}" for name, count in order)
    files = info.files[0] if len(info.files) == 1 else f"{len(info.files)} files"
    yield "bytes", info.nbytes, f"in {files}: {types}"
    for name, tensors in (("copies", info.copies), ("unused", info.unused)):
        if tensors:
            more = f" and {len(tensors) - 2} more" if len(tensors) > 2 else ""
            yield name, len(tensors), f"{', '.join(tensors[:2])}{more}"


def _redundant(info: Info) -> Iterator[Fact]:
    found = info.redundancy
    if found is None:
        yield "redundant", "", f"not counted: {info.uncounted}"
        return
    redundancy = found.redundancy
    if redundancy is None:
        yield "redundant", "0", "parameters, counted by formulas"
        return
    words = f"parameters ({share(found)}) can change without changing the function"
    words += ", counted by formulas:"
    yield "redundant", redundancy["total"], words
    for group in GROUPS:
        if redundancy["pieces"][group]:
            yield group, redundancy["pieces"][group], _kinds(found, group)
    for holds, words in ONLY.items():
        if redundancy["holds"][holds]:
            yield "of all these", redundancy["holds"][holds], words


def _kinds(found: Finding, group: str) -> str:
    """The largest symmetry of a group by name, and how many other kinds there are."""
    named = Counter[str]()
    for symmetry in found.symmetries:
        if symmetry.group == group:
            named[symmetry.name] += symmetry.dimension
    others = len(named) - 1
    more = f"; {others} more kind{'s' * (others > 1)}" if others else ""
    return f"{named.most_common(1)[0][0]}{more}"


def _measured(info: Info) -> Blocks:
    first = info.layers[0]
    turning = first.gauge.planes is not None
    yield Say(
        "Measured on these weights with norms folded in (smallest..largest over heads):", "bold"
    )
    names = ["\nlayer"]
    for name, heads in (("OV", first.ov), ("QK", first.qk)):
        names += [f"{name} rank\nof {len(heads[0].singular_values)}", f"{name}\ncondition"]
    names += ["VO\ngauge", "QK\nplanes" if turning else "QK\ngauge"]
    names += ["dead\nunits"] * (first.units is not None)
    rows = tuple(map(_row, info.layers))
    yield Table("", (*names, ""), rows, (*[True] * len(names), False))
    planes = "; planes: largest scale of keys relative to balanced ones" if turning else ""
    yield Say(
        "OV, QK: products W_O W_V and W_Q' W_K of each head. Condition: largest over smallest "
        f"nonzero singular value; rank: number of singular values above {info.roundoff:.1g} "
        "of the largest (rounding). Gauge: condition of the stored basis relative to "
        f"balanced factors{planes}; 1 is balanced.",
        "dim",
    )


def _row(layer: LayerInfo) -> tuple[Cell, ...]:
    """Of the ranks and conditions of all heads of a layer, the smallest and the largest."""
    cells: list[Cell] = [layer.number]
    for heads in (layer.ov, layer.qk):
        ranks = sorted({head.rank for head in heads})
        cells.append(str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}..{ranks[-1]}")
        known = [head.condition for head in heads if head.condition is not None]
        cells.append(f"{short(min(known))}..{short(max(known))}" if known else "none")
    qk = _qk(layer)
    cells += [short(layer.gauge.vo), "" if qk is None else short(qk)]
    if layer.units is not None:
        cells.append(len(layer.units.dead))
    return (*cells, "*" if layer.special else "")


def short(number: float) -> str:
    """Two digits, or three.

    >>> short(2.345), short(9.97), short(181.3), short(4277.8)
    ('2.3', '10', '181', '4.3e3')
    """
    if number < 999.5:
        return f"{number:.{int(number < 9.95)}f}"
    return f"{number:.1e}".replace("e+0", "e").replace("+", "")


def _special(layers: tuple[LayerInfo, ...]) -> Blocks:
    """Exact or near special points; layers with the same finding are listed together."""
    places: dict[str, list[int]] = {}
    for layer in layers:
        for text in layer.special:
            places.setdefault(text, []).append(layer.number)
    words = "Special points (*) and near ones, where more is redundant than counted:"
    if not places:
        yield Say(f"{words} none found".replace(" (*)", ""))
        return
    yield Say(words, "bold")
    for text, numbers in list(places.items())[:_MOST_SPECIAL]:
        yield Say(f"  {_layers(numbers)}: {text}")
    if len(places) > _MOST_SPECIAL:
        yield Say(f"  and {len(places) - _MOST_SPECIAL} more (listed by --json)")


def _layers(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(str(number) for number in numbers[:6])
    return f"layers {shown}" + (f" and {len(numbers) - 6} more" if len(numbers) > 6 else "")


def _every_head(info: Info) -> Table:
    """Every head of every layer."""
    heads = (
        SimpleNamespace(layer=layer.number, head=number, OV=ov, QK=qk)
        for layer in info.layers
        for number, (ov, qk) in enumerate(zip(layer.ov, layer.qk, strict=True), 1)
    )
    names = ("rank", "condition", "norm", "stable rank")
    measures = (f"{k} {name}: {k}.{name.replace(' ', '_')}" for k in ("OV", "QK") for name in names)
    return table("Heads", heads, "layer", "head", *measures)


def _plots(info: Info) -> Blocks:
    """Condition and stable rank of the products of all heads, and conditions by layer."""
    for measure in ("condition number", "stable rank"):
        for kind in ("OV", "QK"):
            yield _heads(info, kind, measure)
    yield _by_layer(info)


def section(info: Info, takeaway: str) -> Blocks:
    """The section on weights of an analysis: special points, conditions, all layers, the files."""
    special = tuple((layer.number, words) for layer in info.layers for words in layer.special)
    if special:
        title, names = "Special points, or nearly", ("layer", "what is special")
        note = "At these points more parameters are redundant than the formulas count."
        yield Table(title, names, special, note=note)
    yield _by_layer(info, takeaway)
    yield table(
        "All layers",
        info.layers,
        "layer: number",
        ("least OV rank", lambda layer: min(head.rank for head in layer.ov)),
        ("worst OV condition", lambda layer: _worst(layer.ov)),
        ("least QK rank", lambda layer: min(head.rank for head in layer.qk)),
        ("worst QK condition", lambda layer: _worst(layer.qk)),
        "value gauge: gauge.vo",
        ("score gauge", _qk),
        ("dead units", lambda layer: layer.units and len(layer.units.dead)),
        ("double units", lambda layer: layer.units and len(layer.units.duplicates)),
        ("special", lambda layer: len(layer.special)),
        numeric=(True,) * 10,
        folded=True,
    )
    yield Fold("The files", (Facts(tuple(_what(info))),))


def _worst(heads: tuple[Product, ...]) -> Number:
    """The largest condition number."""
    return max((head.condition for head in heads if head.condition is not None), default=None)


def _qk(layer: LayerInfo) -> Number:
    """The gauge of scores: the basis, or where something turns the worst rotary plane."""
    planes = layer.gauge.planes
    return layer.gauge.qk if planes is None else float(2**planes)


def _by_layer(info: Info, takeaway: str = "") -> Figure:
    """Conditions of the worst heads, and of the stored bases."""
    series: dict[str, list[Number]] = {
        "what heads move (OV), worst head": [_worst(layer.ov) for layer in info.layers],
        "where heads look (QK), worst head": [_worst(layer.qk) for layer in info.layers],
        "stored basis of values": [layer.gauge.vo for layer in info.layers],
        "stored basis of scores": [_qk(layer) for layer in info.layers],
    }
    known = {name: values for name, values in series.items() if any(v is not None for v in values)}
    return lines(
        "Condition numbers by layer",
        [layer.number for layer in info.layers],
        known,
        y="condition",
        log=True,
        dashed=[name for name in known if name.startswith("stored")],
        height=300,
        takeaway=takeaway,
        note="Solid lines are matrices that the function depends on. Dashed lines are the gauge: "
        "stored choices that no output depends on, compared with balanced ones (1). A canonical "
        "form sets them to 1.",
    )


def _heads(info: Info, kind: str, measure: str) -> Figure:
    """A map of all heads; those that are rank-deficient are crossed."""
    layers, values = products(info)[kind], list[list[Number]]()
    lacking = [
        (number, layer)
        for layer, heads in enumerate(layers, 1)
        for number, head in enumerate(heads, 1)
        if not head.full
    ]
    if measure == "stable rank":
        what, values = measure, [[head.stable_rank for head in heads] for heads in layers]
        full = len(layers[0][0].singular_values)
        note = f"Stable rank of {kind}: sum of squares over the largest square, at most {full}."
    else:
        what, values = "log10", [[_digits(head) for head in heads] for heads in layers]
        note = "Condition number: largest over smallest nonzero singular value."
    figure = by_head(
        f"{kind}: {measure} of {_FACTORS[kind]}",
        values,
        what=what,
        takeaway=f"{len(lacking) or 'No'} head{'s are' if lacking else ' is'} rank-deficient.",
        note=note + " Crosses: rank-deficient heads." * bool(lacking),
    )
    x, y = [place for place, _ in lacking], [place for _, place in lacking]
    marks = {"mode": "markers", "x": x, "y": y, "marker": {"symbol": "x", "color": "@8"}}
    crosses = [{**marks, "showlegend": False}] * bool(lacking)
    return replace(figure, traces=(*figure.traces, *crosses))


def _digits(head: Product) -> Number:
    """The decimal logarithm of the condition number."""
    return None if head.condition is None else log10(head.condition)
