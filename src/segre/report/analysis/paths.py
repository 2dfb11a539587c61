"""The section on paths: how many of each length, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segre.analysis.part import Part, percent
from segre.report.blocks import Block, Row, Table
from segre.report.charts import columns
from segre.report.collapse_plots import by_length, through_heads


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
    data: Any = part.data
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
