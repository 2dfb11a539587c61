"""Where checkpoints come from, and their hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segre.checkpoint.content_hash import STEPS, ContentHash, Hashes
from segre.checkpoint.lineage import Lineage, Relation
from segre.report.blocks import Blocks, Facts, Figure, Say, Title, Tree, table
from segre.report.charts import axis, curve, heat_map
from segre.report.views import data, on_page, view
from segre.values import counted

_COLOURS = {"unrelated": "bold yellow", "undecided": "bold yellow"}
_EDGES = 4
_LONG = 24  # letters of a name in a plot
_DISTANCES = (
    "Mean distance of heads and units (scaled to length 1) to their nearest relatives in the other "
    "model: 0 for copies of one function, about 1.3 for models trained independently."
)


@view
def of_relation(found: Relation) -> Blocks:
    """The verdict, its evidence, and how certain it is."""
    yield Title("Do two checkpoints have a common origin?", terminal=False)
    yield Say(found.said, _COLOURS.get(found.verdict, "bold green"))
    yield Say(found.reason)
    if found.kinship is not None:
        kin, digits = found.kinship, found.digits - 2
        mean = "" if None in (kin.heads, kin.units) else f", mean {kin.share:.{digits}%}"
        asked = f"{kin.in_words(digits)} ({kin.members:,} asked{mean})"
        yield Say(f"relatives: {asked}; {found.calibration}")
    if found.related:
        yield Say(
            "this is evidence of a common origin; it does not show which checkpoint came first",
            "dim",
        )
    yield from _pairs(found)


@view
def of_lineage(found: Lineage) -> Blocks:
    """One pair in words; several as tables."""
    yield on_page(_plots(found))
    if len(found.pairs) == 1:
        yield from of_relation(found.pairs[0])
        return
    yield Title(f"{len(found.names)} checkpoints", terminal=False)
    skipped = _common(found.names)

    def shared(pair: Relation) -> str:
        return "" if pair.kinship is None else f"{pair.kinship.share:.{pair.digits}f}"

    def distance(pair: Relation) -> float | None:
        return pair.distance if pair.kinship is None or pair.kinship.members else None

    yield table(
        "Pairs",
        found.pairs,
        ("pair", lambda pair: " - ".join(name[skipped:] for name in (pair.one, pair.two))),
        *("verdict", ("relatives", shared, ">"), ("distance", distance, ".2g")),
        wraps=("pair", "verdict", "relatives", "distance"),
    )
    yield Say("tree: the nearest relatives, from the middle of each group", "dim")
    yield from _trees(found, skipped)
    for number, group in enumerate(found.groups, 1):
        yield Say(f"origin {number}: {', '.join(group)}", wrap=False)
    if found.calibration:
        words = "relatives: the nearest heads and units in the other model"
        yield Say(f"{words}; {found.calibration}", "dim")
    yield from _pairs(*found.pairs)


def _trees(found: Lineage, skipped: int) -> Iterator[Tree]:
    """A tree for each group: the nearest relatives, with their distances."""
    roots = {group[0]: Tree(group[0][skipped:]) for group in found.groups if len(group) == 1}
    nodes = dict(roots)
    for near, far, distance in found.branches:
        if near not in nodes:
            nodes[near] = roots[near] = Tree(near[skipped:])
        nodes[far] = Tree(f"{far[skipped:]}  {distance:.2g}")
        nodes[near].branches.append(nodes[far])
    yield from roots.values()


def _common(names: Sequence[str]) -> int:
    """The length of the directory in which all of them are, with its slash.

    >>> _common(["models/base", "models/tuned"]), _common(["base", "tuned"])
    (7, 0)
    """
    folders = {"".join(name.rpartition("/")[:2]) for name in names}
    return len(folders.pop()) if len(folders) == 1 else 0


def _plots(found: Lineage) -> Blocks:
    """The tree of distances, and distances as a map in the order of the tree."""
    from scipy.cluster.hierarchy import dendrogram

    names = [name if len(name) <= _LONG else f"…{name[1 - _LONG :]}" for name in found.names]
    tree = dendrogram(found.tree, no_plot=True)
    order = tree["leaves"][::-1]
    labels = [names[place] for place in order]
    cells = [[float(found.distances[i, j]) for j in order] for i in order]
    origins = counted(len(found.groups), "origin")
    distances = heat_map(
        "Distances",
        ("checkpoint", labels),
        ("checkpoint", labels),
        cells,
        what="distance",
        look={"colorscale": "Blues_r", "zmin": 0, "zmax": 2**0.5, "texttemplate": "%{z:.2f}"},
        takeaway=f"{len(names)} checkpoints, {origins}.",
        note=_DISTANCES,
    )
    lines = tuple(map(curve, tree["dcoord"], tree["icoord"]))
    leaves = range(5, 10 * len(names), 10)
    layout = {
        "xaxis": axis("distance to nearest relatives (average linkage)"),
        "yaxis": {"tickvals": list(leaves), "ticktext": labels[::-1]},
        "showlegend": False,
    }
    title = f"{len(names)} checkpoints, {origins}: tree"
    yield Figure(title, "", lines, layout, distances.numbers, distances.height)
    yield distances


def _pairs(*pairs: Relation) -> Blocks:
    """Every pair as data: verdict, relatives, distance."""
    columns = (
        *("one", "two", "verdict"),
        ("relatives", lambda pair: pair.kinship and pair.kinship.share),
        ("threshold", lambda pair: pair.kinship and pair.kinship.threshold),
        *("distance", "reason"),
    )
    yield data([table("Pairs", pairs, *columns)])


@view
def of_hash(found: ContentHash) -> Blocks:
    """The hashes, and the numbers that lie on a rounding boundary."""
    facts = [("values", found.values, "the same values, for any file layout and dtype")]
    for level, own in found.functions.items():
        words = f"{len(found.numbers)} numbers, step {STEPS[level]:.2g}"
        facts.append((f"function, {level}", own.hash, words))
    longest = max(len(value) for _, value, _ in facts)
    yield Facts(tuple((name, f"{value:<{longest}}", words) for name, value, words in facts))
    for level, own in found.functions.items():
        if not own.edges:
            continue
        more = f" and {len(own.edges) - _EDGES} more" if len(own.edges) > _EDGES else ""
        yield Say(
            f"{level}: {len(own.edges)} close to a rounding boundary, so a moved copy may have "
            "another hash: "
            f"{'; '.join(own.edges[:_EDGES])}{more}"
        )
        yield from (Say(f"{level}, or: {other}") for other in own.others)
    columns = ("part", "number: name", "value", "error")
    yield data([table("Numbers", found.numbers, *columns)])


@view
def of_hashes(found: Hashes) -> Blocks:
    """The hashes of each, and which agree."""
    function = ("function", lambda one: one.function and one.function.hash)
    yield data([table("Hashes", found.each, "model: name", "values", function)])
    for one in found.each:
        yield Title(one.name, style="bold")
        yield from of_hash(one)
    what = "function" if found.each[0].function is not None else "values"
    for group in found.groups:
        if len(group) > 1:
            yield Say(f"same hash of the {what}: {', '.join(group)}", wrap=False)
    if len(found.groups) == len(found.each):
        yield Say(f"no two have the same hash of the {what}")
