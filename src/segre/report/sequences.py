"""The cost of networks on long sequences."""

from __future__ import annotations

from dataclasses import fields

from segre.report.blocks import Blocks, Say, Title, table
from segre.report.charts import Number, lines
from segre.report.views import data, on_page, view
from segre.sequence.cost import CostLine, Costs
from segre.values import counted


def short(count: int | None) -> str:
    """A count with three digits and k, M, G, T, P or E for powers of 1000.

    >>> short(950), short(4096), short(12_345_678), short(None)
    ('950', '4.1 k', '12.3 M', '-')
    """
    if count is None:
        return "-"
    value, names = float(count), iter(("", " k", " M", " G", " T", " P", " E"))
    name = next(names)
    while value >= 999.5:
        value, name = value / 1000, next(names, "?")
    return f"{value:.1f}{name}" if name else str(count)


@view
def of_costs(found: Costs) -> Blocks:
    """A line for each number of tokens and kind of heads; for data, in full."""
    yield Title("Costs on long sequences", terminal=False)
    counts = {"mixing": "operations", "if dense": "dense", "maps": "maps"}
    counts |= {"bytes": "bytes", "state": "state"}
    yield table(
        "Costs",
        found.lines,
        ("tokens", "tokens", ","),
        *("layers", "heads", "mechanism", "method"),
        *((name, lambda line, n=n: short(getattr(line, n)), ">") for name, n in counts.items()),
        ("faster from", "crossover", ","),
        empty="-",
    )
    for tokens in found.tokens:
        state = found.state(tokens)
        kept = f"{short(state)} numbers of state"
        kept = "outputs depend on later tokens" if state is None else kept
        total = short(found.total(tokens))
        yield Say(f"{tokens:,} tokens: {total} operations in total, {kept}", wrap=False)
    yield data([table("Costs", found.lines, *(field.name for field in fields(CostLine)))])
    yield on_page(_operations(found))


def _operations(found: Costs) -> Blocks:
    """Operations of mixing against the number of tokens, compared with dense attention."""
    tokens = sorted(set(found.tokens))
    series: dict[str, list[Number]] = {}
    for line in sorted(found.lines, key=lambda line: line.tokens):
        name = f"{line.mechanism}, {counted(line.heads, 'head')}"
        series.setdefault(name, []).append(line.operations)
        series.setdefault(f"{name}, if dense", []).append(line.dense)
    known = {name: values for name, values in series.items() if len(values) == len(tokens)}
    yield lines(
        "Operations of mixing",
        tokens,
        known,
        y="operations",
        log=True,
        first="tokens",
        log_x=True,
        dotted=[name for name in known if name.endswith("if dense")],
    )
