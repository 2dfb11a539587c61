"""Where checkpoints come from, and their hashes, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from segre.checkpoint.content_hash import STEPS, ContentHash, Hashes
from segre.checkpoint.lineage import Lineage, Relation
from segre.report.console import plain_console
from segre.report.text import printed

_COLOURS = {"unrelated": "yellow", "undecided": "yellow"}
_EDGES = 4


@printed.register
def print_relation(found: Relation) -> None:
    """The verdict, its evidence, and how certain it is."""
    console = plain_console()
    style = f"bold {_COLOURS.get(found.verdict, 'green')}"
    console.print(Text(found.said, style=style))
    console.print(found.reason)
    if found.kinship is not None:
        console.print(f"relatives: {_relatives(found)}; {found.calibration}")
    if found.related:
        console.print(
            "this is evidence of a common origin; it does not show which checkpoint came first",
            style="dim",
        )


def _relatives(found: Relation) -> str:
    """How many heads and units have their nearest relative in the other model."""
    kin, digits = found.kinship, found.digits - 2
    assert kin is not None
    mean = "" if None in (kin.heads, kin.units) else f", mean {kin.share:.{digits}%}"
    return f"{kin.in_words(digits)} ({kin.members:,} asked{mean})"


@printed.register
def print_lineage(found: Lineage) -> None:
    """One pair in words; several as tables."""
    if len(found.pairs) == 1:
        print_relation(found.pairs[0])
        return
    console = plain_console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("pair", "verdict", "relatives", "distance"):
        table.add_column(name, justify="left" if name in ("pair", "verdict") else "right")
    skipped = _common(found.names)
    for pair in found:
        share = "" if pair.kinship is None else f"{pair.kinship.share:.{pair.digits}f}"
        names = " - ".join(name[skipped:] for name in (pair.one, pair.two))
        known = pair.kinship is None or pair.kinship.members
        table.add_row(names, pair.verdict, share, f"{pair.distance:.2g}" if known else "")
    console.print(table)
    console.print("tree: the nearest relatives, from the middle of each group", style="dim")
    roots = {group[0]: Tree(group[0][skipped:]) for group in found.groups if len(group) == 1}
    nodes = dict(roots)
    for near, far, distance in found.branches:
        if near not in nodes:
            nodes[near] = roots[near] = Tree(near[skipped:])
        nodes[far] = nodes[near].add(f"{far[skipped:]}  {distance:.2g}")
    for root in roots.values():
        console.print(root)
    for number, group in enumerate(found.groups, 1):
        console.print(f"origin {number}: {', '.join(group)}", soft_wrap=True)
    if found.calibration:
        words = "relatives: the nearest heads and units in the other model"
        console.print(f"{words}; {found.calibration}", style="dim")


def _common(names: Sequence[str]) -> int:
    """The length of the directory in which all of them are, with its slash.

    >>> _common(["models/base", "models/tuned"]), _common(["base", "tuned"])
    (7, 0)
    """
    folders = {"".join(name.rpartition("/")[:2]) for name in names}
    return len(folders.pop()) if len(folders) == 1 else 0


@printed.register
def print_hash(found: ContentHash) -> None:
    """The hashes, and the numbers that lie on a rounding boundary."""
    console = plain_console()
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(no_wrap=True)
    facts.add_column()
    facts.add_row("values", found.values, "the same values, for any file layout and dtype")
    for level, own in found.functions.items():
        words = f"{len(found.numbers)} numbers, step {STEPS[level]:.2g}"
        facts.add_row(f"function, {level}", own.hash, words)
    console.print(facts)
    for level, own in found.functions.items():
        if not own.edges:
            continue
        more = f" and {len(own.edges) - _EDGES} more" if len(own.edges) > _EDGES else ""
        console.print(
            f"{level}: {len(own.edges)} close to a rounding boundary, so a moved copy may have "
            "another hash: "
            f"{'; '.join(own.edges[:_EDGES])}{more}"
        )
        for other in own.others:
            console.print(f"{level}, or: {other}")


@printed.register
def print_hashes(found: Hashes) -> None:
    """The hashes of each, and which agree."""
    console = plain_console()
    for one in found.each:
        console.print(one.name, style="bold", soft_wrap=True)
        print_hash(one)
    what = "function" if found.each[0].function is not None else "values"
    for group in found.groups:
        if len(group) > 1:
            console.print(f"same hash of the {what}: {', '.join(group)}", soft_wrap=True)
    if len(found.groups) == len(found.each):
        console.print(f"no two have the same hash of the {what}")
