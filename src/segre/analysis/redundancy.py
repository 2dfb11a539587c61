"""Which parameters are redundant, and which design choice is behind each piece?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segre.analysis.fiber import Fiber, fiber_of
from segre.analysis.part import Answer, percent
from segre.analysis.size import known_by
from segre.analysis.workbench import Workbench
from segre.errors import UnsupportedError
from segre.finding import Finding, Symmetry
from segre.geometry.choice import Choice
from segre.geometry.explain import Explanation, explain
from segre.values import listed

# The groups of `segre.finding.GROUPS`, in words that need no glossary.
IN_WORDS = {
    "QK": "queries and keys",
    "VO": "values and outputs",
    "MLP": "MLPs",
    "norms and biases": "norms and biases",
    "shifts": "constant shifts",
    "residual": "the residual stream",
}


_HOW = {
    "computation": "Every symmetry was checked to leave the function as it is: its generators lie "
    "in the kernel of the Jacobian. The bounds meet, so there are no others.",
    "theorem": "The symmetries are counted by formulas. By the theorem there are no others.",
    None: "All symmetries that segre knows are counted; nothing is measured. There may be others.",
}


def what_is_redundant(bench: Workbench) -> Answer:
    """The symmetries by piece; of a transformer also what each design choice does to them."""
    spec = bench.spec
    found = bench.finding
    symmetries, unexplained = found.symmetries, ""
    try:
        explained: Explanation | None = explain(
            spec, bench.seed, memory=bench.memory, progress=bench.progress
        )
        assert explained is not None
        if explained.finding.redundancy == found.redundancy:
            symmetries = explained.finding.symmetries  # the same, layers alike together
    except UnsupportedError as error:  # sizes for which the formulas do not hold
        explained, unexplained = None, str(error)
    fiber = fiber_of(bench)
    how = _HOW[found.proved_by]
    choices = " The effect of a design choice is counted by formulas for the design without it."
    return Answer(
        status=known_by(found),
        proved_by=found.proved_by,
        lead=_lead(found, symmetries),
        how=how + choices * (explained is not None),
        command=f"segre explain {bench.argument}"
        f"{bench.options(seed=bench.seed, memory=bench.memory)}",
        data={
            "parameters": found.parameters,
            "redundancy": found.redundancy,
            "symmetries": [symmetry.document() for symmetry in symmetries],
            "discrete": [one.document() for one in explained.discrete] if explained else [],
            "choices": [one.document() for one in explained.choices] if explained else [],
            "conserved": explained.document()["conserved"] if explained else None,
            "upper": found.parameters - (found.redundant or 0),
            "fiber": None if fiber is None else fiber.document(),
        },
        notes=(f"Design choices are not compared: {unexplained}.",) if unexplained else (),
        takeaways=_takeaways(fiber, symmetries, explained.choices if explained else ()),
    )


def _takeaways(
    fiber: Fiber | None, symmetries: tuple[Symmetry, ...], choices: Sequence[Choice] = ()
) -> dict[str, str]:
    """What the picture of the parameters shows, and which choice matters most."""
    pieces: dict[str, int] = {}
    for one in symmetries:
        name = IN_WORDS.get(one.group, one.name)
        pieces[name] = pieces.get(name, 0) + one.dimension
    said: dict[str, str] = {}
    if any(pieces.values()):
        said["redundant-by-piece"] = _shares(pieces)
    if fiber is not None:
        said["fiber"] = fiber.takeaway
    moved = [one for one in choices if one.total]
    if moved:
        most = max(moved, key=lambda choice: abs(choice.total))
        verb = "removes" if most.total > 0 else "adds"
        said["design-choices"] = (
            f"The choice that matters most is {most.name}, instead of {most.instead}: it {verb} "
            f"{abs(most.total):,} redundant parameters."
        )
    return said


def _shares(pieces: Mapping[str, int]) -> str:
    """Where the symmetries come from, the largest part first.

    >>> _shares({"MLPs": 1, "queries and keys": 6, "norms": 3})
    'Of the symmetries, 60% come from queries and keys, 30% from norms and 10% from MLPs.'
    """
    total = sum(pieces.values())
    first, *rest = sorted(pieces, key=lambda name: -pieces[name])
    if not rest:
        return f"All symmetries come from {first}."
    named = [f"{percent(pieces[first], total)} come from {first}"]
    named += [f"{percent(pieces[name], total)} from {name}" for name in rest[:2]]
    return f"Of the symmetries, {listed(named)}."


def _lead(found: Finding, symmetries: tuple[Symmetry, ...]) -> str:
    total = sum(symmetry.dimension for symmetry in symmetries)
    if not total:
        return "No parameter is known to be redundant."
    least = "About " if found.status == "estimate" else "At least " * (found.number is None)
    named: dict[str, int] = {}
    for symmetry in symmetries:
        named[symmetry.name] = named.get(symmetry.name, 0) + symmetry.dimension
    largest = max(named, key=lambda name: named[name])
    share = percent(total, found.parameters, 3)
    rest = (found.redundant or 0) - total
    are = "is" if rest == 1 else "are"
    more = f" Another {rest:,} {are} redundant without a symmetry that segre lists." * (rest > 0)
    return (
        f"{least}{total:,} of {found.parameters:,} parameters ({share}) can change without "
        f"changing the function. The largest piece is {largest}: {named[largest]:,}.{more}"
    )
