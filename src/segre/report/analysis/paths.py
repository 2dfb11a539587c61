"""The section on paths: how many of each length, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segre.analysis.part import Part, percent
from segre.report.analysis.charts import by_head, columns
from segre.report.page.blocks import Block, Facts, Table


def blocks(part: Part) -> Iterator[Block]:
    """Counts and shares; with weights the norms of sums."""
    assert part.data is not None
    if part.data["kind"] == "shares":
        yield _shares(part.data)
    else:
        yield from _sums(part.data)


def _shares(data: Any) -> Block:
    shares = data["shares"]
    lengths = list(range(len(shares)))
    largest = max(lengths, key=lambda length: shares[length])
    return columns(
        "paths-by-length",
        "Paths by length",
        f"Most paths have length {largest}: {percent(shares[largest], 1)} of them.",
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


def _sums(data: Any) -> Iterator[Block]:
    norms = data["norms"]
    lengths = list(range(len(norms)))
    largest = max(lengths, key=lambda length: norms[length])
    yield columns(
        "paths-by-length",
        "What paths of each length add to the output",
        f"Paths of length {largest} together are the largest part, with norm {norms[largest]:.3g}.",
        ("length", lengths),
        ("norm of their sum", norms),
        numbers=Table(
            "paths-by-length-numbers",
            "Paths by length",
            ("length", "paths", "norm of their sum", "relative residual"),
            tuple(
                (length, _count(data["counts"][length]), norms[length], data["residuals"][length])
                for length in lengths
            ),
            (True,) * 4,
        ),
        note="Sums can cancel each other: the norms do not add up to the norm of the output. "
        "Length 0 is what goes past all heads, through skips, MLPs and norms.",
    )
    through = data["through"]
    flat = [value for row in through for value in row]
    yield by_head(
        "paths-through-heads",
        "What goes through each head",
        f"Norms of the sums of all paths through a head, from {min(flat):.3g} to {max(flat):.3g}.",
        through,
        what="norm",
        note="The norm of the sum of all paths that go through a head.",
    )
    yield Facts(
        (
            ("biases", data["bias"], "norm of what no path carries"),
            ("difference", data["identity"], "sum of all paths and biases against the output"),
        )
    )
