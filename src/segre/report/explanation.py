"""The symmetries of an architecture in words, and what each design choice does to them."""

from __future__ import annotations

from collections.abc import Sequence

from segre.finding import GROUPS
from segre.geometry.choices import Choice
from segre.geometry.explain import Explanation
from segre.report.blocks import Blocks, Fact, Facts, Say, Tile, Title
from segre.report.dimensions import (
    share,
    status_in_words,
    symmetries_of,
    unexplained,
    value_in_words,
)
from segre.report.views import data, elsewhere, view
from segre.values import counted, listed

_NUMBER = 15  # letters
_HOLDS = {
    "exact": "for every eps and every output",
    "eps=0": "only at eps = 0",
    "softmax": "only after the output softmax",
}


@view
def of_explanation(found: Explanation) -> Blocks:
    """What is redundant and why, choice by choice."""
    finding = found.finding
    redundancy = finding.redundancy or {"total": 0, "pieces": {}, "holds": {}}
    least = "at least " * ((finding.redundant or 0) > redundancy["total"])
    yield Title(found.name)
    dimension = value_in_words(finding)
    yield elsewhere(
        Facts((Tile("dimension", dimension, finding.label, status_in_words(finding)),)),
        Say("" if str(finding.spec) == found.name else str(finding.spec)),
    )
    yield Say(
        f"{finding.parameters:,} parameters, of which {least}{redundancy['total']:,} "
        f"({share(finding)}) are redundant: they can change without changing the function. By "
        f"piece, {found.counted}:",
        width=100,
    )
    pieces = [
        (one.dimension, f"{group}: {one.name}, {one.where}")
        for group in GROUPS
        for one in finding.symmetries
        if one.group == group
    ]
    holds = [(count, _HOLDS[name]) for name, count in redundancy["holds"].items() if count]
    yield from _counted(pieces)
    yield Say()
    yield from _counted(holds)
    if found.discrete:
        yield Say("\nDiscrete symmetries, in addition:", "bold")
        for one in found.discrete:
            places = "" if one.times == 1 else f", at each of {one.times:,} places"
            yield Say(f"  {one.group}: {one.what}{places}", wrap=False)
    if found.laws is not None:
        yield Say("\nWhat gradient flow conserves because of them:", "bold")
        for law in found.laws.every:
            said = f"nothing that is known: {law.reason}"
            if law.formula is not None:
                said = f"{law.formula} ({counted(law.count, 'scalar')})"
            yield Say(f"  {law.name}, {law.where}: {said}", width=100)
        yield Say(f"  {found.laws.independent:,} of these scalars are independent.", width=100)
    yield Say("\nHow each design choice changes these numbers:", "bold")
    for choice in found.choices:
        yield Say(f"  {_sentence(choice)}", width=100)
    if finding.number is not None:
        yield Say()
        yield Say(f"The dimension is {finding.number:,}, {finding.proof()}.", width=100)
    if words := unexplained(finding):
        yield Say(f"In all, {finding.redundant:,} parameters are redundant; {words}.", width=100)
    for note in finding.notes:
        yield Say()
        yield Say(note, width=100)
    yield data([symmetries_of(finding)])


def _counted(rows: Sequence[tuple[int, str]]) -> Blocks:
    """Numbers of a fixed width, each with what it counts."""
    facts: tuple[Fact, ...] = tuple((f"{n:>{_NUMBER},}", "", what) for n, what in rows)
    if facts:
        yield Facts(facts, values=False)


def _sentence(choice: Choice) -> str:
    """What a design choice removes and adds."""
    more = [f"{n:,} of {group}" for group, n in choice.change.items() if n > 0]
    less = [f"{-n:,} of {group}" for group, n in choice.change.items() if n < 0]
    name = choice.name[0].upper() + choice.name[1:]
    parts = [f"removes {listed(more)}"] if more else []
    parts += [f"{'but ' * bool(more)}adds {listed(less)}"] if less else []
    effect = ", ".join(parts) or "no effect on symmetries"
    return f"{name}, instead of {choice.instead}: {effect}."
