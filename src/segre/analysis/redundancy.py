"""What is the functional dimension, which parameters are redundant, and what is behind them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from segre.analysis.fiber import Fiber, fiber_of
from segre.analysis.part import Part, percent
from segre.analysis.workbench import Workbench
from segre.errors import UnsupportedError
from segre.finding import Finding, Symmetry
from segre.geometry.choices import Choice
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


def how_large(bench: Workbench) -> Part:
    """The dimension, between bounds that hold."""
    found = bench.finding
    return Part(
        status="proved" if found.proved_by else found.label,
        proved_by=found.proved_by,
        lead=_size_in_words(found),
        how=_size_known_by(found),
        command=bench.asking("dim", seed=bench.seed, memory=bench.memory),
        data=found.document(),
        notes=tuple(_sentence(note) for note in found.notes),
        details=found,
    )


def _size_in_words(found: Finding) -> str:
    redundant = f"{found.redundant or 0:,} ({percent(found.redundant or 0, found.parameters, 3)})"
    of_all, end = f"{found.parameters:,} parameters", "are redundant."
    if found.number is not None:
        size = f"{found.number:,} of {of_all}: {redundant} {end} The dimension is {found.proof()}."
    elif found.lower is not None and found.upper is not None:
        size = f"between {found.lower:,} and {found.upper:,} of {of_all}. "
        size += "Both bounds are proved by computation; they do not meet."
    elif found.upper is not None:
        size = f"at most {found.upper:,} of {of_all}: at least {redundant} {end}"
    elif found.estimate is not None:
        size = f"about {found.estimate:,} of {of_all}: formulas count {redundant} as redundant. "
        size += "This is not a bound."
    else:
        size = f"at least {found.lower:,}."
    return f"The functional dimension is {size}"


def _size_known_by(found: Finding) -> str:
    if found.theorem is not None:
        number = len(found.theorem["hypotheses"])
        hold = "hypothesis was" if number == 1 else f"{number} hypotheses were"
        return (
            f"By theorem {found.theorem['name']} ({found.theorem['title']}), whose {hold} checked. "
            f"Its proof, in {found.theorem['proof']}, has to be trusted. For the upper bound, "
            "symmetries are counted by formulas."
        )
    if found.upper is None:
        return (
            "The number of parameters minus the symmetries of the design, which are counted by "
            "formulas. The formulas are not proved for these choices and sizes."
        )
    if found.lower is None:
        at_a_point = found.upper_evidence is not None and found.upper_evidence.kind == "symmetries"
        counted = "the symmetries of the design, which are counted by formulas at any size"
        minus = "the rank of the symmetries at a random point" if at_a_point else counted
        return (
            f"The upper bound is the number of parameters minus {minus}. A lower bound is not "
            "computed at this size."
        )
    bounds = (
        "The lower bound is a minor of the Jacobian that is not zero. The upper bound is the "
        "number of parameters minus the symmetries, or a formula. The certificate has both."
    )
    return bounds if found.sample is None else f"{bounds} {_sentence(found.sample.how)}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def what_is_redundant(bench: Workbench) -> Part:
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
    fiber, how = fiber_of(bench), _HOW[found.proved_by]
    if explained is not None:
        how += " The effect of a design choice is counted by formulas for the design without it."
    return Part(
        status="proved" if found.proved_by else found.label,
        proved_by=found.proved_by,
        lead=_lead(found, symmetries),
        how=how,
        command=bench.asking("explain", seed=bench.seed, memory=bench.memory),
        data={
            "parameters": found.parameters,
            "redundancy": found.redundancy,
            "symmetries": [symmetry.document() for symmetry in symmetries],
            "discrete": [one.document() for one in explained.discrete] if explained else [],
            "choices": [one.document() for one in explained.choices] if explained else [],
            "conserved": explained.document()["conserved"] if explained else None,
            "upper": found.parameters - (found.redundant or 0),
            "fiber": fiber and fiber.document(),
        },
        notes=(f"Design choices are not compared: {unexplained}.",) if unexplained else (),
        takeaways=_takeaways(fiber, symmetries, explained.choices if explained else ()),
    )


def _takeaways(
    fiber: Fiber | None, symmetries: tuple[Symmetry, ...], choices: Sequence[Choice] = ()
) -> dict[str, str]:
    """What the picture of the parameters shows, and which choice matters most."""
    pieces, said = Counter[str](), dict[str, str]()
    for one in symmetries:
        pieces[IN_WORDS.get(one.group, one.name)] += one.dimension
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
    named = Counter[str]()
    for symmetry in symmetries:
        named[symmetry.name] += symmetry.dimension
    largest = max(named, key=lambda name: named[name])
    share = percent(total, found.parameters, 3)
    rest = (found.redundant or 0) - total
    are = "is" if rest == 1 else "are"
    more = f" Another {rest:,} {are} redundant without a symmetry that segre lists." * (rest > 0)
    return (
        f"{least}{total:,} of {found.parameters:,} parameters ({share}) can change without "
        f"changing the function. The largest piece is {largest}: {named[largest]:,}.{more}"
    )
