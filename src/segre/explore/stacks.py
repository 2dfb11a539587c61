"""What is known of a stack of attention layers, without computing?

Plain softmax and lightning stacks have theorems. For other mechanisms a formula predicts the
redundancy (docs/mechanisms.md); it is an estimate, neither proved nor a bound. Where sizes are too
small for the formula nothing is known, and the stack has to be computed.
"""

from __future__ import annotations

from dataclasses import replace

from segre.finding import GROUPS, Evidence, Finding, Symmetry
from segre.geometry.at_any_size import by_theorem
from segre.geometry.choice import Choice
from segre.geometry.stack_choices import stack_choices
from segre.spec import Network
from segre.stack.fiber import parts
from segre.theorems import apply


def known_of_stack(spec: Network) -> Finding | None:
    """The dimension by a theorem, or predicted by the formula; None if there is neither.

    >>> from segre.explore.designs import design
    >>> known_of_stack(design("softmax/d=64/layers=6/a=16/t=8")).value
    14848
    >>> known_of_stack(design("softmax/d=64/layers=6/a=16/gate=head/t=8")).status
    'estimate'
    """
    named = _symmetries(spec)
    total = sum(one.dimension for one in named)
    applied = apply(spec)
    if applied is not None and applied.holds:
        found = by_theorem(applied)
        return replace(found, symmetries=named) if total == applied.redundant else found
    if not named:
        return None
    statement = (
        f"a formula predicts {total:,} symmetries of {spec.parameters:,} parameters; it agrees "
        "with exact ranks on 2,500 small stacks, and is neither a proof nor a bound"
    )
    return Finding(
        spec,
        "estimate",
        estimate=spec.parameters - total,
        estimate_evidence=Evidence("formula", statement),
        symmetries=named,
    )


def _symmetries(spec: Network) -> tuple[Symmetry, ...]:
    several = "all layers" if spec.depth > 1 else "layer 1"
    return tuple(
        Symmetry(name, "between layers" if group == "residual" else several, count, group)
        for (group, name), count in (parts(spec) or {}).items()
        if count
    )


def choices_of_stack(spec: Network) -> list[Choice]:
    """Each choice undone, and the redundancy predicted again, where the formula covers both."""
    here = parts(spec)
    out: list[Choice] = []
    for name, instead, other in stack_choices(spec) if here is not None else ():
        there = parts(other)
        if there is None or here is None:
            continue
        change = {
            group: sum(n for (g, _), n in there.items() if g == group)
            - sum(n for (g, _), n in here.items() if g == group)
            for group in GROUPS
        }
        out.append(Choice(name, instead, other, change))
    return out
