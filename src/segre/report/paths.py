"""Paths: how many there are of each length, and what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from segre.analysis.part import Part
from segre.collapse.commands import Paths, PathShares
from segre.collapse.residual import norm, relative_residual
from segre.fields.interface import Array
from segre.report.blocks import Blocks, Figure, Row, Say, Table, Tile, Title
from segre.report.charts import by_head, columns
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
        own = _by_head(heads[layer])
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
    yield on_page(_plots(found))


def _by_head(values: Array) -> Array:
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


def _plots(found: Paths) -> Blocks:
    """Shares of the output by length and of biases, numbers of paths, and a map of heads."""
    shares = [float(np.mean(share)) for share in found.sums.shares]
    bias = float(np.mean(found.sums.bias_share))
    yield by_length(shares, found.sums.counts, bias, _lengths(found))
    yield through_heads([_by_head(own).tolist() for own in found.heads])


def by_length(
    shares: Sequence[float],
    counts: Sequence[int],
    bias: float,
    numbers: Table,
    takeaway: str = "",
) -> Figure:
    """Shares of the output by the length of paths and of biases, beside shares of all paths."""
    lengths = [length for length, count in enumerate(counts) if count]
    names = [*map(str, lengths), "biases"]
    figure = columns(
        "Shares of the output, by length of paths",
        ("length", names),
        ("share of the output", [*(shares[length] for length in lengths), bias]),
        numbers=numbers,
        note="Shares add up to one. A share below zero, or above one, means that terms cancel each "
        "other. Length 0 is what goes past all heads, through skips, MLPs and norms; biases are "
        "carried by no path. The line is the share of all paths that have this length.",
        takeaway=takeaway,
    )
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "share of all paths",
        "x": names[:-1],
        "y": [counts[length] / sum(counts) for length in lengths],
        "line": {"color": "@2"},
    }
    own = {**figure.traces[0], "name": "share of the output"}
    return replace(figure, traces=(own, line), layout={**figure.layout, "showlegend": True})


def through_heads(through: Sequence[Sequence[float]], said: str = "", takeaway: str = "") -> Figure:
    """The share of the output of all paths through each head; `said` is for its note."""
    return by_head(
        "Share of the output through each head",
        through,
        what="share",
        takeaway=takeaway,
        note="A cell is the share of all paths that go through that head. In each layer, the "
        f"shares of its heads, of the paths past it and of the biases add up to one.{said}",
    )


# --- a section of an analysis -------------------------------------------------------------------


def section(part: Part) -> Blocks:
    """Counts and shares; with weights the norms of sums."""
    known, said = part.found, part.takeaways
    counts, lengths = list(map(int, known["counts"])), range(len(known["counts"]))
    numbers = [count if count < 10**15 else float(count) for count in counts]
    if known["kind"] == "shares":
        rows: Any = zip(lengths, numbers, known["shares"], strict=True)
        yield columns(
            "Paths by length",
            ("length", list(lengths)),
            ("share of all paths", known["shares"]),
            numbers=Table("", ("length", "paths", "share"), tuple(rows)),
            takeaway=said["paths-by-length"],
        )
        return
    names = ("length", "paths", "share of the output", "norm of their sum", "relative residual")
    columns_of = (known["shares"], known["norms"], known["residuals"])
    rows = zip(map(str, lengths), numbers, *columns_of, strict=False)
    last = ("biases", None, known["bias_share"], known["bias"], None)
    table = Table("Paths by length", names, (*rows, last), (False, *(True,) * 4))
    sums = f" The sum of all paths and biases differs from the output by {known['identity']:.1e}"
    told = said["paths-by-length"]
    first = by_length(known["shares"], counts, known["bias_share"], table, takeaway=told)
    told = said["paths-through-heads"]
    yield Row((first, through_heads(known["through"], f"{sums}, relative.", takeaway=told)))
