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
    shares = {str(length): value for length, value in enumerate(data["shares"])}
    shares["biases"] = data["bias_share"]
    rows = [
        (name, _count(count), share, size, rest)
        for (name, share), count, size, rest in zip(
            shares.items(), data["counts"], data["norms"], data["residuals"], strict=False
        )
    ]
    yield columns(
        "paths-by-length",
        "Shares of the output, by length of paths",
        f"Shares of the output of the variant {data['variant']}: "
        + ", ".join(f"{name} {_percent(value)}" for name, value in shares.items())
        + ".",
        ("length", list(shares)),
        ("share of the output", list(shares.values())),
        numbers=Table(
            "paths-by-length-numbers",
            "Paths by length",
            ("length", "paths", "share of the output", "norm of their sum", "relative residual"),
            (*rows, ("biases", None, data["bias_share"], data["bias"], None)),
            (False, *(True,) * 4),
        ),
        note="Shares add up to one. A share below zero, or above one, says that terms cancel each "
        "other. Length 0 is what goes past all heads, through skips, MLPs and norms; biases are "
        "what no path carries.",
    )
    through = data["through"]
    flat = [value for row in through for value in row]
    yield by_head(
        "paths-through-heads",
        "Share of the output through each head",
        "Shares of the output of all paths through a head, "
        f"from {_percent(min(flat))} to {_percent(max(flat))}.",
        through,
        what="share",
        note="All paths that go through a head, together. In a layer, the shares of its heads, of "
        "the paths past it and of the biases add up to one.",
    )
    yield Facts(
        (
            ("variant", data["variant"], "what was run; full is the model as it is"),
            ("difference", data["identity"], "sum of all paths and biases against the output"),
        )
    )


def _percent(value: float | None) -> str:
    return "not known" if value is None or value != value else percent(value, 1, 1)
