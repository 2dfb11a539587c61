"""The section on paths: how many of each length, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segre.analysis.part import Part, percent
from segre.report.blocks import Block, Row, Table
from segre.report.charts import by_head, columns


def blocks(part: Part) -> Iterator[Block]:
    """Counts and shares; with weights the norms of sums."""
    assert part.data is not None
    if part.data["kind"] == "shares":
        yield _shares(part)
    else:
        yield from _sums(part)


def _shares(part: Part) -> Block:
    assert part.data is not None
    data = part.data
    shares = data["shares"]
    lengths = list(range(len(shares)))
    largest = max(lengths, key=lambda length: shares[length])
    return columns(
        "paths-by-length",
        "Paths by length",
        f"Bars by length: {percent(shares[largest], 1)} of the paths have the most common length, "
        f"{largest}.",
        part.takeaways["paths-by-length"],
        ("length", lengths),
        ("share of all paths", shares),
        numbers=Table(
            "paths-by-length-numbers",
            "Paths by length",
            ("length", "paths", "share"),
            tuple((length, _count(data["counts"][length]), shares[length]) for length in lengths),
            (True, True, True),
        ),
    )


def _count(text: str) -> int | float:
    number = int(text)
    return number if number < 10**15 else float(number)


def _sums(part: Part) -> Iterator[Block]:
    assert part.data is not None
    data: Any = part.data
    shares = {str(length): value for length, value in enumerate(data["shares"])}
    shares["biases"] = data["bias_share"]
    rows = [
        (name, _count(count), share, size, rest)
        for (name, share), count, size, rest in zip(
            shares.items(), data["counts"], data["norms"], data["residuals"], strict=False
        )
    ]
    by_length = columns(
        "paths-by-length",
        "Shares of the output, by length of paths",
        "Shares of the output by the length of paths: "
        + ", ".join(f"{name} {_percent(value)}" for name, value in shares.items())
        + ".",
        part.takeaways["paths-by-length"],
        ("length", list(shares)),
        ("share of the output", list(shares.values())),
        numbers=Table(
            "paths-by-length-numbers",
            "Paths by length",
            ("length", "paths", "share of the output", "norm of their sum", "relative residual"),
            (*rows, ("biases", None, data["bias_share"], data["bias"], None)),
            (False, *(True,) * 4),
        ),
        note="Shares add up to one. A share below zero, or above one, means that terms cancel each "
        "other. Length 0 is what goes past all heads, through skips, MLPs and norms; biases are "
        "carried by no path.",
    )
    through = data["through"]
    flat = [value for row in through for value in row]
    heads = by_head(
        "paths-through-heads",
        "Share of the output through each head",
        "Shares of the output of all paths through a head, "
        f"from {_percent(min(flat))} to {_percent(max(flat))}.",
        part.takeaways["paths-through-heads"],
        through,
        what="share",
        note="A cell is the share of all paths that go through that head. In each layer, the "
        "shares of its heads, of the paths past it and of the biases add up to one. The sum of all "
        f"paths and biases differs from the output by {data['identity']:.1e}, relative.",
    )
    yield Row((by_length, heads))


def _percent(value: float | None) -> str:
    return "not known" if value is None or value != value else percent(value, 1, 1)
