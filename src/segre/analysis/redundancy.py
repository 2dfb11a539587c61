"""Which parameters are redundant, and which design choice is behind each piece?"""

from __future__ import annotations

from segre.analysis.part import Answer, percent
from segre.analysis.size import dimension_of, known_by
from segre.analysis.workbench import Workbench
from segre.errors import UnsupportedError
from segre.finding import Finding, Symmetry
from segre.geometry.explain import Explanation, explain
from segre.geometry.symmetry_table import symmetry_table
from segre.polynomial.spec import Polynomial
from segre.spec import Network


def what_is_redundant(bench: Workbench) -> Answer:
    """The symmetries by piece; of a transformer also what each design choice does to them."""
    spec = bench.target.spec
    if isinstance(spec, Network | Polynomial):
        return _of_stack(bench)
    found = dimension_of(bench)
    symmetries, unexplained = found.symmetries, ""
    try:
        answer = explain(spec)
        assert isinstance(answer, Explanation)
        explained: Explanation | None = answer
        if answer.finding.redundancy == found.redundancy:
            symmetries = answer.finding.symmetries  # the same, layers alike together
    except UnsupportedError as error:  # sizes for which the formulas do not hold
        explained, unexplained = None, str(error)
    proved = found.status == "proved"
    how = (
        "Generators of each symmetry were checked to lie in the kernel of the Jacobian, and the "
        "bounds meet: there are no others."
        if proved
        else "Counted by formulas of all symmetries that segre knows; nothing is measured. There "
        "may be others: the number is a bound from below."
    )
    choices = " What a choice does is counted by formulas for the design without it."
    return Answer(
        status=known_by(found),
        lead=_lead(found, symmetries),
        how=how + choices * (explained is not None),
        command=f"segre explain {bench.target.argument}",
        data={
            "parameters": found.parameters,
            "redundancy": found.redundancy,
            "symmetries": [symmetry.document() for symmetry in symmetries],
            "discrete": [one.document() for one in explained.discrete] if explained else [],
            "choices": [one.document() for one in explained.choices] if explained else [],
        },
        notes=(f"Design choices are not compared: {unexplained}.",) if unexplained else (),
    )


def _of_stack(bench: Workbench) -> Answer:
    spec = bench.target.spec
    table = symmetry_table(spec, bench.seed, memory=bench.memory, progress=bench.progress)
    found = dimension_of(bench)
    options = bench.options(seed=bench.seed, memory=bench.memory)
    return Answer(
        status=known_by(found),
        lead=_lead(found, found.symmetries),
        how="Each symmetry is written down and checked to lie in the kernel of the Jacobian; "
        "the conserved quantities are checked exactly against the gradient.",
        command=f"segre symmetries {bench.target.argument}{options}",
        data={"parameters": spec.parameters, **table.document()},
    )


def _lead(found: Finding, symmetries: tuple[Symmetry, ...]) -> str:
    total = sum(symmetry.dimension for symmetry in symmetries)
    if not total:
        return "No parameter is known to be redundant."
    least = "" if found.status == "proved" else "At least "
    named: dict[str, int] = {}
    for symmetry in symmetries:
        named[symmetry.name] = named.get(symmetry.name, 0) + symmetry.dimension
    largest = max(named, key=lambda name: named[name])
    share = percent(total, found.parameters, 3)
    rest = found.parameters - (found.parameters if found.upper is None else found.upper) - total
    more = f" Another {rest:,} are redundant without a symmetry that segre lists." * (rest > 0)
    return (
        f"{least}{total:,} of {found.parameters:,} parameters ({share}) can change without "
        f"changing the function. The largest piece, {named[largest]:,}: {largest}.{more}"
    )
