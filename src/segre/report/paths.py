"""Sums over paths, in numbers and plots, and the section of an analysis about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from segre.analysis.part import Part
from segre.collapse.commands import Paths, PathShares
from segre.collapse.paths import PathSums
from segre.collapse.residual import norm, relative_residual
from segre.fields.interface import Array
from segre.report.blocks import (
    Blocks,
    Figure,
    Row,
    Say,
    Table,
    Tile,
    Title,
)
from segre.report.charts import by_head, columns, curve
from segre.report.depth import number, numbers_table, shown_layers
from segre.report.views import data, on_page, tiles, view
from segre.values import counted


@view
def of_paths(found: Paths) -> Blocks:
    """Contributions by length and layer."""
    sums, heads = found.sums, found.heads
    total = sum(sums.counts)
    yield Title(f"{found.name}: {counted(total, 'path')}", found.status, style="")
    apart = Tile(
        "their sum and the output differ by", f"{found.error:.1g}", found.status, "relative"
    )
    yield tiles(Tile("paths", f"{total:,}" if total < 10**12 else f"{total:.3g}", "exact"), apart)
    sizes, relative = norm(sums.by_length), relative_residual(sums.by_length)
    rows = {
        str(length): (
            f"{count:.3g}" if count > 10**9 else f"{count:,}",
            f"{count / total:.4f}",
            _share(sums.shares[length]),
            number(float(np.mean(sizes[length]))),
            number(float(np.mean(relative[length]))),
        )
        for length, count in enumerate(sums.counts)
        if count
    }
    bias, whole = float(np.mean(norm(sums.bias))), float(np.mean(norm(sums.total)))
    rows["biases"] = "", "", _share(sums.bias_share), number(bias), ""
    rows["output"] = "", "", "1.0000", number(whole), ""
    names = ("length", "paths", "of all", "share of output", "norm", "relative residual")
    yield numbers_table(names, rows)
    yield Say(
        "share of output: <term, output> / |output|^2; shares sum to one, and are negative for "
        "terms that point against the output"
    )
    yield Say(
        "relative difference of the sum of all paths and biases from the network's output: "
        f"{found.error:.1e}"
    )
    rest = 1 - np.mean(sums.bias_share)
    layers = {}
    for layer in shown_layers(len(heads) - 1):
        own = _means(heads[layer])
        largest = int(own.argmax())
        most = f"{_share(own[largest])} (head {largest + 1})"
        layers[str(layer + 1)] = _share(own.sum()), _share(rest - own.sum()), most
    titles = ("layer", "share through its heads", "share around it", "largest share of a head")
    yield numbers_table(titles, layers)
    for path in found.sampled:
        steps = " ".join(str(step) if step else "-" for step in path["path"])
        yield Say(
            f"path {steps}: norm {number(path['norm'])}, relative residual "
            f"{number(path['relative'])}"
        )
    yield data([_lengths(found)])
    yield on_page(_plots(found, {}))


def _means(values: Array) -> Array:
    """The share of every head, the mean over a batch."""
    found: Array = values.reshape(len(values), -1).mean(axis=1)
    return found


def _share(values: Any) -> str:
    """The mean over a batch."""
    mean = float(np.mean(values))
    return f"{mean:.4f}" if np.isfinite(mean) else "-"


def _lengths(found: Paths) -> Table:
    """A row for every length of paths."""
    counts, total = found.sums.counts, sum(found.sums.counts)
    shares = [float(np.mean(share)) for share in found.sums.shares]
    rows = tuple((n, count, count / total, shares[n]) for n, count in enumerate(counts) if count)
    return Table("Paths by length", ("length", "paths", "of all", "share of output"), rows)


@view
def of_shares(found: PathShares) -> Blocks:
    """Shares of paths by length; on a terminal, of those that are not too rare."""
    shares = found.value
    yield Title(f"{found.model}: shares of paths by length", found.status, style="")
    rows = {str(n): (f"{x:.4f}",) for n, x in reversed([*enumerate(shares)]) if x >= 5e-5}
    yield numbers_table(("length", "share"), rows)
    every = tuple(enumerate(map(float, shares)))
    yield data([Table("Shares of all paths, by length", ("length", "of all"), every)])


def _plots(found: Paths, said: Mapping[str, str]) -> Iterator[Figure]:
    """Shares of the output by length of paths and of biases, beside shares of all; a map of heads.

    `said` has what the two plots show.
    """
    sums, total = found.sums, sum(found.sums.counts)
    bias, shares = float(np.mean(sums.bias_share)), found.value
    lengths = [length for length, count in enumerate(sums.counts) if count]
    names = [*map(str, lengths), "biases"]
    figure = columns(
        "Shares of the output, by length of paths",
        ("length", names),
        ("share of the output", [*(shares[length] for length in lengths), bias]),
        numbers=_in_full(sums),
        note="Shares add up to one. A share below zero, or above one, means that terms cancel each "
        "other. Length 0 is what goes past all heads, through skips, MLPs and norms; biases are "
        "carried by no path. The line is the share of all paths that have this length.",
        takeaway=said.get("paths-by-length", ""),
    )
    whole, name = [sums.counts[n] / total for n in lengths], "share of all paths"
    line = curve(names[:-1], whole, "@2", mode="lines+markers", name=name)
    own = {**figure.traces[0], "name": "share of the output"}
    yield replace(figure, traces=(own, line), layout={**figure.layout, "showlegend": True})
    yield by_head(
        "Share of the output through each head",
        [_means(own).tolist() for own in found.heads],
        what="share",
        takeaway=said.get("paths-through-heads", ""),
        note="A cell is the share of all paths that go through that head. In each layer, the "
        "shares of its heads, of the paths past it and of the biases add up to one. The sum of all "
        f"paths and biases differs from the output by {found.error:.1e}, relative.",
    )


def _in_full(sums: PathSums) -> Table:
    """How many paths there are of every length and what they carry, and what biases do."""
    total = sum(sums.counts)
    rows = [
        (
            str(length),
            count if count < 10**15 else float(count),
            count / total,
            float(np.mean(sums.shares[length])),
            float(np.mean(norm(term))),
            float(np.mean(relative_residual(term))) if np.any(term) else None,
        )
        for length, (count, term) in enumerate(zip(sums.counts, sums.by_length, strict=True))
    ]
    bias = float(np.mean(sums.bias_share)), float(np.mean(norm(sums.bias)))
    names = ("length", "paths", "share of all paths", "share of the output")
    columns = (*names, "norm of their sum", "relative residual")
    last = ("biases", None, None, *bias, None)
    return Table("Paths by length", columns, (*rows, last), (False, *[True] * 5))


def section(part: Part) -> Blocks:
    """Counts and shares; with weights the norms of sums."""
    if part.details is not None:
        yield Row(tuple(_plots(part.details, part.takeaways)))
        return
    counts, shares = list(map(int, part.found["counts"])), part.found["shares"]
    numbers = (count if count < 10**15 else float(count) for count in counts)
    lengths = list(range(len(counts)))
    rows = tuple(zip(lengths, numbers, shares, strict=True))
    yield columns(
        "Paths by length",
        ("length", lengths),
        ("share of all paths", shares),
        numbers=Table("", ("length", "paths", "share"), rows),
        takeaway=part.takeaways["paths-by-length"],
    )
