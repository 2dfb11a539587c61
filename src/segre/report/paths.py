"""Paths: how many there are of each length, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from segre.analysis.part import Part, percent
from segre.collapse.commands import Paths, PathShares
from segre.collapse.residual import norm, relative_residual
from segre.report.blocks import Block, Figure, Row, Say, Table, Tile, Title, table, tiles
from segre.report.charts import by_head, columns
from segre.report.collapse import number, numbers_table, shown_layers
from segre.report.views import drawn, tabled, view
from segre.values import counted


@view.register
def of_paths(found: Paths) -> Iterator[Block]:
    """Contributions by length and layer."""
    sums, heads = found.sums, found.heads
    total = sum(sums.counts)
    yield Title(f"{found.name}: {counted(total, 'path')}", found.status, style="")
    apart = Tile(
        "their sum and the output differ by", f"{found.error:.1g}", found.status, "relative"
    )
    yield tiles(Tile("paths", f"{total:,}" if total < 10**12 else f"{total:.3g}", "exact"), apart)
    sizes, relative = norm(sums.by_length), relative_residual(sums.by_length)
    rows = [
        (
            str(length),
            f"{count:.3g}" if count > 10**9 else f"{count:,}",
            f"{count / total:.4f}",
            _share(sums.shares[length]),
            number(float(np.mean(sizes[length]))),
            number(float(np.mean(relative[length]))),
        )
        for length, count in enumerate(sums.counts)
        if count
    ]
    bias, whole = float(np.mean(norm(sums.bias))), float(np.mean(norm(sums.total)))
    rows.append(("biases", "", "", _share(sums.bias_share), number(bias), ""))
    rows.append(("output", "", "", "1.0000", number(whole), ""))
    names = ("length", "paths", "of all", "share of output", "norm", "relative residual")
    yield numbers_table("paths", names, rows)
    yield Say(
        "share of output: <term, output> / |output|^2; shares sum to one, and are negative for "
        "terms that point against the output"
    )
    yield Say(
        "relative difference of the sum of all paths and biases from the network's output: "
        f"{found.error:.1e}"
    )
    rest = 1 - np.mean(sums.bias_share)
    layers = []
    for layer in shown_layers(len(heads) - 1):
        own = heads[layer].reshape(len(heads[layer]), -1).mean(axis=1)
        largest = int(own.argmax())
        most = f"{_share(own[largest])} (head {largest + 1})"
        layers.append((str(layer + 1), _share(own.sum()), _share(rest - own.sum()), most))
    titles = ("layer", "share through its heads", "share around it", "largest share of a head")
    yield numbers_table("layers", titles, layers)
    for path in found.sampled:
        steps = " ".join(str(step) if step else "-" for step in path["path"])
        yield Say(
            f"path {steps}: norm {number(path['norm'])}, relative residual "
            f"{number(path['relative'])}"
        )


def _share(values: Any) -> str:
    """The mean over a batch."""
    mean = float(np.mean(values))
    return f"{mean:.4f}" if np.isfinite(mean) else "-"


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


@view.register
def of_shares(found: PathShares) -> Iterator[Block]:
    """Shares of paths by length."""
    shares = found.value
    yield Title(f"{found.model}: shares of paths by length", found.status, style="")
    rows = [
        (str(length), f"{shares[length]:.4f}")
        for length in sorted(range(len(shares)), reverse=True)
        if shares[length] >= 5e-5
    ]
    yield numbers_table("shares", ("length", "share"), rows)


@tabled.register
def table_of_shares(found: PathShares) -> Table:
    """A row for every length."""
    rows = tuple(enumerate(map(float, found.value)))
    return Table("shares", "Shares of all paths, by length", ("length", "of all"), rows)


@drawn.register
def plots_of_paths(found: Paths) -> Iterator[Figure]:
    """Shares of the output by length and of biases, numbers of paths, and a map of heads."""
    shares = [float(np.mean(share)) for share in found.sums.shares]
    through = [own.reshape(len(own), -1).mean(axis=1).tolist() for own in found.heads]
    bias = float(np.mean(found.sums.bias_share))
    yield by_length(shares, found.sums.counts, bias, table_of_paths(found))
    yield through_heads(through)


def by_length(
    shares: Sequence[float], counts: Sequence[int], bias: float, numbers: Table, takeaway: str = ""
) -> Figure:
    """Shares of the output by the length of paths and of biases, beside shares of all paths."""
    lengths = [length for length, count in enumerate(counts) if count]
    names = [*map(str, lengths), "biases"]
    values = [*(shares[length] for length in lengths), bias]
    total = sum(counts)
    said = ", ".join(f"{name} {_percent(x)}" for name, x in zip(names, values, strict=True))
    figure = columns(
        ("length", names),
        ("share of the output", values),
        numbers=numbers,
        key="paths-by-length",
        title="Shares of the output, by length of paths",
        alt=f"Shares of the output by the length of paths: {said}.",
        takeaway=takeaway,
        note="Shares add up to one. A share below zero, or above one, means that terms cancel each "
        "other. Length 0 is what goes past all heads, through skips, MLPs and norms; biases are "
        "carried by no path. The line is the share of all paths that have this length.",
    )
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "share of all paths",
        "x": names[:-1],
        "y": [counts[length] / total for length in lengths],
        "line": {"color": "@2"},
    }
    own = {**figure.traces[0], "name": "share of the output"}
    return replace(figure, traces=(own, line), layout={**figure.layout, "showlegend": True})


def through_heads(through: Sequence[Sequence[float]], takeaway: str = "", said: str = "") -> Figure:
    """The share of the output of all paths through each head."""
    flat = [value for row in through for value in row]
    return by_head(
        through,
        what="share",
        key="paths-through-heads",
        title="Share of the output through each head",
        alt="Shares of the output of all paths through a head, "
        f"from {_percent(min(flat))} to {_percent(max(flat))}.",
        takeaway=takeaway,
        note="A cell is the share of all paths that go through that head. In each layer, the "
        f"shares of its heads, of the paths past it and of the biases add up to one.{said}",
    )


def _percent(value: float) -> str:
    return "not known" if value != value else percent(value, 1, 1)


# --- a section of an analysis -------------------------------------------------------------------


def blocks(part: Part) -> Iterator[Block]:
    """Counts and shares; with weights the norms of sums."""
    if part.found["kind"] == "shares":
        yield _shares(part)
    else:
        yield from _sums(part)


def _shares(part: Part) -> Block:
    data = part.found
    shares = data["shares"]
    lengths = list(range(len(shares)))
    largest = max(lengths, key=lambda length: shares[length])
    return columns(
        ("length", lengths),
        ("share of all paths", shares),
        numbers=table(
            "",
            "",
            lengths,
            ("length", int),
            ("paths", lambda length: _count(data["counts"][length])),
            ("share", lambda length: shares[length]),
        ),
        key="paths-by-length",
        title="Paths by length",
        alt=f"Bars by length: {percent(shares[largest], 1)} of the paths have the most common "
        f"length, {largest}.",
        takeaway=part.takeaways["paths-by-length"],
    )


def _count(text: str) -> int | float:
    number = int(text)
    return number if number < 10**15 else float(number)


def _sums(part: Part) -> Iterator[Block]:
    data = part.found
    lengths = map(str, range(len(data["shares"])))
    counts = map(_count, data["counts"])
    rows = zip(lengths, counts, data["shares"], data["norms"], data["residuals"], strict=False)
    numbers = Table(
        "paths-by-length-numbers",
        "Paths by length",
        ("length", "paths", "share of the output", "norm of their sum", "relative residual"),
        (*rows, ("biases", None, data["bias_share"], data["bias"], None)),
        (False, *(True,) * 4),
    )
    said = f"The sum of all paths and biases differs from the output by {data['identity']:.1e}"
    counted = list(map(int, data["counts"]))
    told = part.takeaways["paths-by-length"]
    first = by_length(data["shares"], counted, data["bias_share"], numbers, told)
    told = part.takeaways["paths-through-heads"]
    yield Row((first, through_heads(data["through"], told, f" {said}, relative.")))
