"""Facts about a checkpoint on the terminal: counted by formulas, and measured."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from segre.checkpoint.info import Info, LayerInfo, Product
from segre.finding import GROUPS, HOLDS, Finding
from segre.report.console import plain_console
from segre.report.text import printed

_MOST_SPECIAL = 8  # lines about special points
_ONLY = {"eps=0": "only at eps = 0", "softmax": "only after the output softmax"}


@printed.register
def print_info(info: Info) -> None:
    """What it is, what is redundant, and its layers."""
    console = plain_console()
    console.print(Text(str(info.spec), style="bold cyan"), soft_wrap=True)
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(justify="right", no_wrap=True)
    facts.add_column()
    for name, number, words in (*_what(info), *_redundant(info)):
        facts.add_row(name, number, words)
    console.print(facts)
    console.print()
    _measured(console, info)
    _special(console, info.layers)


def _what(info: Info) -> Iterable[tuple[str, str, str]]:
    yield "checkpoint", "", f"{info.name}, family {info.family}"
    yield "parameters", f"{info.parameters:,}", "distinct"
    if info.stored != info.parameters:
        yield "", f"{info.stored:,}", "stored"
    order = sorted(info.types.items(), key=lambda item: -item[1])
    types = ", ".join(f"{count:,} of type {name}" for name, count in order)
    files = info.files[0] if len(info.files) == 1 else f"{len(info.files)} files"
    yield "bytes", f"{info.nbytes:,}", f"in {files}: {types}"
    for name, tensors in (("copies", info.copies), ("unused", info.unused)):
        if tensors:
            yield name, str(len(tensors)), _some(tensors)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:2])
    return shown if len(names) <= 2 else f"{shown} and {len(names) - 2} more"


# --- counted ----------------------------------------------------------------------------------


def _redundant(info: Info) -> Iterable[tuple[str, str, str]]:
    found = info.redundancy
    if found is None:
        yield "redundant", "", f"not counted: {info.uncounted}"
        return
    redundancy = found.redundancy
    if redundancy is None:
        yield "redundant", "0", "parameters, counted by formulas"
        return
    share = f"{redundancy['total'] / found.parameters:.3%}".replace("%", " %")
    words = f"parameters ({share}) can change without changing the function, counted by formulas:"
    yield "redundant", f"{redundancy['total']:,}", words
    for group in GROUPS:
        if redundancy["pieces"][group]:
            yield group, f"{redundancy['pieces'][group]:,}", _kinds(found, group)
    for holds in HOLDS:
        if holds in _ONLY and redundancy["holds"][holds]:
            yield "of all these", f"{redundancy['holds'][holds]:,}", _ONLY[holds]


def _kinds(found: Finding, group: str) -> str:
    """The largest symmetry of a group by name, and how many other kinds there are."""
    named: dict[str, int] = {}
    for symmetry in found.symmetries:
        if symmetry.group == group:
            named[symmetry.name] = named.get(symmetry.name, 0) + symmetry.dimension
    largest = max(named, key=lambda name: named[name])
    others = len(named) - 1
    more = f"; {others} more kind{'s' * (others > 1)}" if others else ""
    return f"{largest}{more}"


# --- measured ---------------------------------------------------------------------------------


def _measured(console: Console, info: Info) -> None:
    first = info.layers[0]
    turning = first.gauge.planes is not None
    console.print(
        "Measured on these weights with norms folded in (smallest..largest over heads):",
        style="bold",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("\nlayer", justify="right", no_wrap=True)
    for name, heads in (("OV", first.ov), ("QK", first.qk)):
        full = len(heads[0].singular_values)
        table.add_column(f"{name} rank\nof {full}", justify="right", no_wrap=True)
        table.add_column(f"{name}\ncondition", justify="right", no_wrap=True)
    table.add_column("VO\ngauge", justify="right", no_wrap=True)
    table.add_column("QK\nplanes" if turning else "QK\ngauge", justify="right", no_wrap=True)
    if first.units is not None:
        table.add_column("dead\nunits", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for layer in info.layers:
        table.add_row(*_row(layer))
    console.print(table)
    planes = "; planes: largest scale of keys relative to balanced ones" if turning else ""
    legend = (
        "OV, QK: products W_O W_V and W_Q' W_K of each head. Condition: largest over smallest "
        f"nonzero singular value; rank: number of singular values above {info.roundoff:.1g} "
        "of the largest (rounding). Gauge: condition of the stored basis relative to "
        f"balanced factors{planes}; 1 is balanced."
    )
    console.print(legend, style="dim")


def _row(layer: LayerInfo) -> list[str]:
    cells = [str(layer.number)]
    for heads in (layer.ov, layer.qk):
        cells += [_ranks(heads), _conditions(heads)]
    gauge = layer.gauge
    qk = gauge.qk if gauge.planes is None else 2**gauge.planes
    cells += [short(gauge.vo), "" if qk is None else short(qk)]
    if layer.units is not None:
        cells.append(str(len(layer.units.dead)))
    return [*cells, "*" if layer.special else ""]


def _ranks(heads: tuple[Product, ...]) -> str:
    least, most = min(head.rank for head in heads), max(head.rank for head in heads)
    return str(least) if least == most else f"{least}..{most}"


def _conditions(heads: tuple[Product, ...]) -> str:
    known = [head.condition for head in heads if head.condition is not None]
    return f"{short(min(known))}..{short(max(known))}" if known else "none"


def short(number: float) -> str:
    """Two digits, or three.

    >>> short(2.345), short(9.97), short(181.3), short(4277.8)
    ('2.3', '10', '181', '4.3e3')
    """
    if number < 9.95:
        return f"{number:.1f}"
    return (
        f"{number:.0f}" if number < 999.5 else f"{number:.1e}".replace("e+0", "e").replace("+", "")
    )


def _special(console: Console, layers: tuple[LayerInfo, ...]) -> None:
    """Exact or near special points; layers with the same finding are listed together."""
    places: dict[str, list[int]] = {}
    for layer in layers:
        for text in layer.special:
            places.setdefault(text, []).append(layer.number)
    words = "Special points (*) and near ones, where more is redundant than counted:"
    if not places:
        console.print(f"{words} none found".replace(" (*)", ""))
        return
    console.print(words, style="bold")
    for text, numbers in list(places.items())[:_MOST_SPECIAL]:
        console.print(f"  {_layers(numbers)}: {text}")
    if len(places) > _MOST_SPECIAL:
        console.print(f"  and {len(places) - _MOST_SPECIAL} more (listed by --json)")


def _layers(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(str(number) for number in numbers[:6])
    return f"layers {shown}" + (f" and {len(numbers) - 6} more" if len(numbers) > 6 else "")
