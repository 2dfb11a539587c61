"""How many inputs determine a function."""

from __future__ import annotations

from collections.abc import Iterator

from segre.finding import Status
from segre.geometry.samples import SampleCount
from segre.report.blocks import Block, Facts, Figure, Say, Table, Tile, Title
from segre.report.charts import lines
from segre.report.views import drawn, tabled, view

_WORDS = {"proved": "{}", "computed": "computed, not proved", "bounded": "bounds {}"}
_LABELS: dict[str, Status] = {"computed": "bounded", "bounded": "bounded"}


@view.register
def of_samples(found: SampleCount) -> Iterator[Block]:
    """The number of inputs, the naive count, why, and the rank after each number of inputs."""
    known = found.dimension
    value = f"{found.value:,}" if found.value is not None else f"{found.lower:,}..{found.upper:,}"
    size = known.value if known.value is not None else known.lower
    words = _WORDS[found.status].format(known.proof())
    said = f"generic inputs determine the function up to finitely many; {words}"
    yield Title(str(found.spec))
    yield Facts(
        (
            Tile("samples", value, _LABELS.get(found.status, known.label), said),
            ("naive count", found.naive, f"{size:,} dimensions / {found.outputs:,} outputs"),
            ("enough", "", found.enough),
            ("fewer", "", found.fewer),
        )
    )
    if found.ranks:
        yield Say()
        rows = tuple(tuple(f"{cell:>6}" for cell in row) for row in _shortened(found))
        yield Table("ranks", "", ("inputs", "rank", "new"), rows, (True, True, True))


def _shortened(found: SampleCount) -> Iterator[tuple[str, str, str]]:
    """The table; of consecutive inputs that add the same rank, only the first and the last."""
    gains = found.gains
    skipped = False
    for n, (rank, gain) in enumerate(zip(found.ranks, gains, strict=True)):
        inner = 0 < n < len(gains) - 1 and gains[n - 1] == gain == gains[n + 1]
        if inner and not skipped:
            yield "...", "...", f"+{gain}"
        elif not inner:
            yield str(n + 1), str(rank), f"+{gain}"
        skipped = inner


@tabled.register
def table_of_samples(found: SampleCount) -> Table:
    """A row for each number of inputs: the rank, the gain in rank, and the output numbers."""
    counts = range(1, len(found.ranks) + 1)
    rows = zip(counts, found.ranks, found.gains, (n * found.outputs for n in counts), strict=True)
    return Table("ranks", "Ranks", ("inputs", "rank", "new", "outputs"), tuple(rows))


@drawn.register
def plot_of_samples(found: SampleCount) -> Iterator[Figure]:
    """The rank against the number of inputs, with the naive count for comparison."""
    target = found.ranks[-1]
    inputs = range(len(found.ranks) + 2)
    known = f"dimension {target}" if found.dimension.value else f"largest rank found, {target}"
    rank = f"rank: {found.value} inputs ({found.status})"
    naive = f"output numbers: {found.naive} inputs"
    yield lines(
        inputs,
        {
            rank: [0, *found.ranks, target],
            naive: [min(n * found.outputs, target) for n in inputs],
            known: [target] * len(inputs),
        },
        y="rank of the Jacobian",
        first="generic inputs",
        dashed=(naive,),
        dotted=(known,),
        key="ranks",
        title=str(found.spec)[:80],
        alt="The rank of the Jacobian against the number of generic inputs.",
    )
