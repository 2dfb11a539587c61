"""What follows from formulas and theorems alone, for one design, as the page shows it?

The server answers with it at once, and the static page has it for the designs of its table: nothing
here computes with weights. Counts are digits, at any size. Plain softmax and lightning stacks have
theorems. For other mechanisms a formula predicts the redundancy (docs/mechanisms.md); it is an
estimate, neither proved nor a bound. Where sizes are too small for it nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from segre.analysis.comparison import group_of
from segre.architectures import Architecture
from segre.errors import SegreError, TooLargeError, UnsupportedError
from segre.explore.designs import Design, design
from segre.finding import GROUPS, Evidence, Finding, Symmetry
from segre.geometry.at_any_size import by_theorem, formulas
from segre.geometry.choices import Choice, choices
from segre.geometry.explain import of_transformer
from segre.geometry.stack_formula import parts
from segre.report.dimensions import value_in_words
from segre.sequence.cost import costs_of
from segre.spec import Network
from segre.symmetry.finite import Discrete, discrete_of_stack
from segre.theorems import apply
from segre.transformer.spec import Transformer

TOKENS = tuple(2**power for power in range(6, 21, 2))
DEEPEST = 512  # layers that are answered for at once


def by_formulas(text: str, undo: bool = True) -> dict[str, Any]:
    """Everything that follows from formulas and theorems; one sentence where they say nothing.

    Without `undo`, which takes most of the time, nothing is said of what each choice costs.
    """
    try:
        spec = admitted(text)
        found, discrete, choices = explained(spec, undo)
        known = told(spec, found, discrete, choices)
        return known if undo else {**known, "choices": None}
    except SegreError as error:
        return {"error": str(error)}


def admitted(text: str) -> Design:
    """The design of an inline spec, unless it is too deep."""
    spec = design(text)
    if spec.depth > DEEPEST:
        raise TooLargeError(
            f"{spec.depth:,} layers: the explorer answers up to {DEEPEST}; use segre explain"
        )
    return spec


def explained(
    spec: Design, undo: bool = True
) -> tuple[Finding, Sequence[Discrete], Sequence[Choice]]:
    """What is known of the dimension, the discrete symmetries, and what each choice costs."""
    if isinstance(spec, Transformer):
        try:
            found = of_transformer("", spec, formulas, undo)
        except UnsupportedError as error:
            why = "they need d > 2, t > 1 and heads no wider than d"
            raise unknown(spec, f"the formulas do not cover these sizes ({why})") from error
        return found.finding, found.discrete, found.choices
    known = known_of_stack(spec)
    if known is None:
        raise unknown(spec, "no formula covers these mechanisms at these sizes")
    return known, discrete_of_stack(spec), choices_of_stack(spec) if undo else ()


def unknown(spec: Design, why: str) -> UnsupportedError:
    """What is said of a design that no formula covers."""
    return UnsupportedError(f"not known here: {why}; run: segre dim {spec}")


def told(
    spec: Design, found: Finding, discrete: Sequence[Discrete], choices: Sequence[Choice]
) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        **of_finding(found),
        "discrete": [one.document() for one in discrete],
        "choices": [{**one.document(), "total": str(one.total)} for one in choices if one.total],
        "cost": costs(spec),
    }


def of_finding(found: Finding) -> dict[str, Any]:
    """A finding as the page shows it: a bound is said to be one, and so is a prediction."""
    spec = found.spec
    redundant = found.redundant or 0
    pieces = dict.fromkeys(GROUPS, 0)
    for one in found.symmetries:
        group = one.group or (group_of(one.name) if found.theorem is None else "")
        if group:
            pieces[group] += one.dimension
    return {
        "spec": str(spec),
        "parameters": str(spec.parameters),
        "dimension": f"predicted {found.estimate:,}"
        if found.estimate is not None
        else value_in_words(found, "{:,}".format),
        "bound": str(spec.parameters - redundant),
        "redundant": str(redundant),
        "status": "proved" if found.proved_by else found.label,
        "label": found.label,
        "known": _known_by(found),
        "how": found.how,
        "notes": list(found.notes),
        "theorem": _theorem(found.theorem),
        "unmet": _theorem(_covering(spec)) if found.value is None else None,
        "pieces": {group: str(count) for group, count in pieces.items()},
        "symmetries": [
            {**one.document(), "dimension": str(one.dimension)} for one in found.symmetries
        ],
    }


def _known_by(found: Finding) -> str:
    """How the dimension is known, in a few words; what is not proved says so."""
    if found.number is not None:
        return found.proof()
    if found.estimate is not None:
        return "predicted by a formula; neither proved nor a bound"
    if found.lower is not None:
        return "both bounds proved by computation; they do not meet"
    return "upper bound, counted by formulas; not proved to be reached"


def _covering(spec: Architecture) -> Mapping[str, Any] | None:
    """The theorem about such designs, of which some hypothesis fails at these sizes."""
    applied = apply(spec)
    return None if applied is None else applied.document()


def _theorem(named: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if named is None:
        return None
    return {
        "name": named["name"],
        "title": named["title"],
        "proof": named["proof"],
        "trusts": named["trusts"],
        "symmetries": {name: str(count) for name, count in named["symmetries"].items()},
        "hypotheses": [
            {**one, "left": str(one["left"]), "right": str(one["right"])}
            for one in named["hypotheses"]
        ],
    }


def costs(spec: Design) -> list[dict[str, Any]]:
    """Operations, and numbers kept for later tokens, against the number of tokens."""
    found = costs_of(spec, TOKENS)
    return [
        {
            "tokens": tokens,
            "operations": str(found.total(tokens)),
            "state": None if found.state(tokens) is None else str(found.state(tokens)),
            "methods": sorted({one.method for one in found.lines if one.tokens == tokens}),
        }
        for tokens in found.tokens
    ]


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

    def count(other: Network) -> tuple[Symmetry, ...] | None:
        return None if parts(other) is None else _symmetries(other)

    here = count(spec)
    return [] if here is None else list(choices(spec, here, count))
