"""Rank against depth, and paths, in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from segre.collapse.commands import Depth, Paths, PathShares
from segre.collapse.curves import Curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study, medians
from segre.fields.interface import Array
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.collapse import power
from segre.report.page.blocks import Cell, Facts, Items, Table, Tile


@carded.register
def card_of_depth(depth: Depth) -> Card:
    """The verdict, and the numbers by layer."""
    found = depth.found
    name = str(found.model["model"]) if isinstance(found, Curves) else found.spec
    last = "not measured" if depth.value is None else power(depth.value)
    return Card(
        title=name,
        tiles=(Tile("relative residual after the last layer", last, depth.status, depth.how),),
        blocks=(Items("", tuple(depth.advice)), table_of_depth(depth)),
    )


@tabled.register
def table_of_depth(depth: Depth) -> Table:
    """Decimal logarithms of the relative residual, after every layer."""
    columns = dict(_curves(depth.found))
    layers = range(depth.found.layers + 1)
    rows = tuple((layer, *(column[layer] for column in columns.values())) for layer in layers)
    title = "log10 of the relative residual, after every layer"
    return Table("depth", title, ("layer", *columns), rows, (True,) * (len(columns) + 1))


def _curves(found: Curves | Study | MechanismStudy) -> Iterator[tuple[str, list[Cell]]]:
    if isinstance(found, Study):
        yield "with skips" if found.skip else "without skips", _medians(found.own.relative)
        if found.other is not None:
            name = "without skips" if found.skip else "with skips"
            yield name, _medians(found.other.relative)
        return
    if isinstance(found, MechanismStudy):
        yield "as it is", _medians(found.relative)
        return
    for curve in found.curves:
        yield str(curve.variant), [_finite(value) for value in curve.log10]


def _medians(values: Array) -> list[Cell]:
    return [_finite(value) for value in medians(values)]


def _finite(value: float) -> Cell:
    return float(value) if math.isfinite(value) else None


@carded.register
def card_of_paths(found: Paths) -> Card:
    """Shares of the output by length, and through every layer."""
    total = sum(found.sums.counts)
    return Card(
        title=found.name,
        tiles=(
            Tile("paths", f"{total:,}" if total < 10**12 else f"{total:.3g}", "exact"),
            Tile(
                "difference of their sum from the output",
                f"{found.error:.1g}",
                found.status,
                "relative",
            ),
        ),
        blocks=(
            table_of_paths(found),
            Facts((("biases", float(np.mean(found.sums.bias_share)), "share of the output"),)),
        ),
    )


@tabled.register
def table_of_paths(found: Paths) -> Table:
    """A row for every length of paths."""
    total = sum(found.sums.counts)
    rows = tuple(
        (length, count, count / total, float(np.mean(found.sums.shares[length])))
        for length, count in enumerate(found.sums.counts)
        if count
    )
    names = ("length", "paths", "of all", "share of output")
    return Table("paths", "Paths by length", names, rows)


@carded.register
def card_of_shares(found: PathShares) -> Card:
    """Shares of all paths, by length."""
    return Card(title=found.model, status=found.status, blocks=(table_of_shares(found),))


@tabled.register
def table_of_shares(found: PathShares) -> Table:
    """A row for every length."""
    rows = tuple(enumerate(map(float, found.value)))
    return Table("shares", "Shares of all paths, by length", ("length", "of all"), rows)
