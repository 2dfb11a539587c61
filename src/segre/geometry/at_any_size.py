"""The dimension of an architecture of any size without computing: by a theorem or a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import TypeVar

from segre.architectures import Architecture
from segre.errors import UnsupportedError
from segre.finding import Bound, Finding, Findings, Symmetry
from segre.geometry.closed_form import closed_form
from segre.geometry.redundancy import asked_for, counted, formulas
from segre.models import Source, architecture, called, only
from segre.theorems import Application, apply, nearest
from segre.transformer.choices import Output
from segre.transformer.spec import Transformer
from segre.values import quote

A = TypeVar("A", bound=Architecture)

_ONLY = "dim --compare supports only transformers; use segre compare for other designs"


def at_any_size(spec: A, count: Callable[[A], Finding]) -> Finding:
    """The dimension by a theorem; where none applies, what `count` says, and the reason.

    >>> from segre.models import architecture
    >>> at_any_size(architecture("llama-3-8b"), formulas).value
    8016918528
    """
    applied = apply(spec)
    if applied is not None and applied.holds:
        return by_theorem(applied)
    found = count(spec)
    return replace(found, notes=(why_no_theorem(spec, applied), *found.notes))


def proved_by_theorem(spec: Architecture) -> Finding:
    """The dimension by a theorem; refused if none applies."""
    applied = apply(spec)
    if applied is None or not applied.holds:
        raise UnsupportedError(f"spec {quote(str(spec))}: {why_no_theorem(spec, applied)}")
    return by_theorem(applied)


def by_theorem(applied: Application) -> Finding:
    """The finding of a theorem whose hypotheses hold.

    The symmetries are counted a second time, by the formulas of their pieces, where there are
    any: the two counts must agree.
    """
    upper, symmetries = _counted_again(applied.spec, applied)
    return Finding.from_bounds(applied.spec, applied.bound, upper, symmetries=symmetries)


@singledispatch
def _counted_again(spec: Architecture, applied: Application) -> tuple[Bound, tuple[Symmetry, ...]]:
    """The upper bound without the theorem, if there is one, and the symmetries."""
    upper = closed_form(spec) if spec.has_closed_form else applied.bound
    named = applied.symmetries.items()
    return upper, tuple(Symmetry(name, "all layers", count) for name, count in named)


@_counted_again.register
def _by_formulas(spec: Transformer, applied: Application) -> tuple[Bound, tuple[Symmetry, ...]]:
    found, lower = formulas(spec), applied.bound
    left = spec.parameters - sum(symmetry.dimension for symmetry in found.symmetries)
    if left != lower.value:
        raise AssertionError(
            f"{spec}: theorem {applied.theorem.name} says {lower.value}, the symmetries leave "
            f"{left}; this is a bug in segre, please report it"
        )
    return Bound(left, found.upper_evidence or lower.evidence), found.symmetries


def why_no_theorem(spec: Architecture, applied: Application | None) -> str:
    """Why no theorem gives the dimension: a design that none covers, or hypotheses that fail."""
    if applied is not None:
        return applied.words
    theorem, misfits = nearest(spec)
    return (
        f"no theorem covers this design; the nearest is theorem {theorem.name} ({theorem.title}), "
        f"which does not cover {', '.join(misfits)}"
    )


def compare(*specs: Source, output: Output | None = None) -> Findings:
    """Transformers of any size, by a theorem or counted, in the order in which they are given.

    >>> found = compare("gpt2", "llama-3-8b")
    >>> [(one.value, one.redundancy["total"]) for one in found.found]
    [(123092456, 1347352), (8016918528, 13342720)]
    """
    found = []
    for spec in specs:
        net = architecture(spec)
        net = net if output is None else asked_for(net, output)
        found.append(at_any_size(only(Transformer, net, _ONLY), counted))
    return Findings(tuple(map(called, specs)), tuple(found))
