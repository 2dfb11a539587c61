"""What is its functional dimension, and how is that known?"""

from __future__ import annotations

from segre.analysis.part import Answer, percent
from segre.analysis.workbench import Workbench
from segre.finding import Finding, Status


def known_by(found: Finding) -> Status:
    """How a dimension is known, and with it the number of redundant parameters."""
    if found.upper is None:
        return "estimated"
    if found.sample is not None:
        return found.sample.status
    return "bounded" if found.value is None else "proved"


def how_large(bench: Workbench) -> Answer:
    """The dimension, between bounds that hold."""
    found = bench.finding
    options = bench.options(seed=bench.seed, memory=bench.memory)
    return Answer(
        status=known_by(found),
        proved_by=found.proved_by,
        lead=_lead(found),
        how=_how(found),
        command=f"segre dim {bench.argument}{options}",
        data=found.document(),
        notes=tuple(_sentence(note) for note in found.notes),
        details=found,
    )


def _lead(found: Finding) -> str:
    redundant = found.redundant or 0
    share = percent(redundant, found.parameters, 3)
    if found.number is not None:
        return (
            f"The functional dimension is {found.number:,} of {found.parameters:,} parameters: "
            f"{redundant:,} ({share}) are redundant. The dimension is {found.proof()}."
        )
    if found.lower is not None and found.upper is not None:
        return (
            f"The functional dimension is between {found.lower:,} and {found.upper:,} of "
            f"{found.parameters:,} parameters. Both bounds are proved by computation; they do not "
            "meet."
        )
    if found.upper is not None:
        return (
            f"The functional dimension is at most {found.upper:,} of {found.parameters:,} "
            f"parameters: at least {redundant:,} ({share}) are redundant."
        )
    if found.estimate is not None:
        return (
            f"The functional dimension is about {found.estimate:,} of {found.parameters:,} "
            f"parameters: formulas count {redundant:,} ({share}) as redundant. This is not a bound."
        )
    return f"The functional dimension is at least {found.lower:,}."


def _how(found: Finding) -> str:
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
    at_a_point = found.upper_evidence is not None and found.upper_evidence.kind == "symmetries"
    if found.lower is None and at_a_point:
        return (
            "The upper bound is the number of parameters minus the rank of the symmetries at a "
            "random point. A lower bound is not computed at this size."
        )
    if found.lower is None:
        return (
            "The upper bound is the number of parameters minus the symmetries of the design, which "
            "are counted by formulas at any size. A lower bound is not computed at this size."
        )
    bounds = (
        "The lower bound is a minor of the Jacobian that is not zero. The upper bound is the "
        "number of parameters minus the symmetries, or a formula. The certificate has both."
    )
    return bounds if found.sample is None else f"{bounds} {_sentence(found.sample.how)}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
