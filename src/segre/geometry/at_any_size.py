"""The dimension of an architecture of any size without computing: by a theorem or a count.

Every piece of the symmetries (symmetry/) knows its dimension as a formula in the sizes. The same
pieces, as generators, are proved to be all on small architectures; here they are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache, partial, singledispatch
from typing import TypeVar

from segre.architectures import Architecture
from segre.errors import SpecError, UnsupportedError
from segre.finding import Bound, Evidence, Finding, Findings, Symmetry
from segre.geometry.closed_form import closed_form
from segre.geometry.point import at_usable_point
from segre.geometry.rank import symmetry_rank
from segre.models import Source, Spec, architecture, called, only
from segre.models.instances import PROVED, small_instance
from segre.symmetry.all import pieces
from segre.symmetry.unreached import filled_by_embeddings
from segre.theorems import Application, apply, nearest
from segre.transformer.choices import Output
from segre.transformer.spec import Transformer
from segre.values import quote

A = TypeVar("A", bound=Architecture)

_LARGEST = 6_000  # parameters, up to which the rank of the symmetries takes about a second
_ONLY = "--method count supports only transformers; leave out --method count"
_COMPARED = "dim --compare supports only transformers; use segre compare for other designs"


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
        found.append(at_any_size(only(Transformer, net, _COMPARED), counted))
    return Findings(tuple(map(called, specs)), tuple(found))


# --- redundant parameters -------------------------------------------------------------------------


def asked_for(spec: Architecture, output: Output) -> Transformer:
    """The same model, asked about another output."""
    why = (
        f"output={output} needs a model with a head for words or labels, which this architecture "
        "does not have"
    )
    model = only(Transformer, spec, why)
    if output == "hidden":
        return model.trunk()
    if model.output == "hidden":
        raise SpecError(f"spec {quote(str(spec))}: {why}")
    return model.with_output(output)


def counted(spec: Architecture) -> Finding:
    """What the symmetries leave, without a Jacobian.

    It is an upper bound where the formulas are proved. Elsewhere it is one for networks so small
    that the rank of the symmetries at a random point is computed; of others it is an estimate.
    """
    spec = only(Transformer, spec, _ONLY)
    try:
        found = formulas(spec)
    except UnsupportedError:
        if spec.parameters > _LARGEST:
            raise
        return at_a_point(spec)
    if found.upper is None and spec.parameters <= _LARGEST:
        return replace(at_a_point(spec), notes=found.notes)
    return found


@lru_cache(maxsize=256)
def at_a_point(spec: Architecture) -> Finding:
    """The upper bound from the rank of all symmetries at a random point."""
    found = at_usable_point(spec, 0, partial(symmetry_rank, checked=False))
    bound = found.bound(spec.parameters)
    return Finding.from_bounds(spec, None, bound, symmetries=found.symmetries)


@lru_cache(maxsize=2048)
def formulas(spec: Transformer) -> Finding:
    """The number of parameters minus the formulas of all symmetries.

    It is an upper bound if all kinds and sizes are among those for which docs/transformers.md
    proves that the symmetries are independent, and an estimate if not.
    """
    kinds, found = symmetries_counted(spec)
    redundant = sum(symmetry.dimension for symmetry in found)
    statement = f"{redundant:,} symmetries of {spec.parameters:,} parameters, counted by formulas"
    left, notes = spec.parameters - redundant, (_sharpness(spec),)
    if _roomy(spec, kinds):
        upper = Bound(left, Evidence("counted-symmetries", statement))
        return Finding.from_bounds(spec, None, upper, symmetries=found, notes=notes)
    statement += ", which are not proved to be exact for these choices and sizes"
    return Finding(
        spec,
        "estimate",
        estimate=left,
        estimate_evidence=Evidence("counted-symmetries", statement),
        symmetries=found,
        notes=notes,
    )


# Kinds of symmetries that are independent at roomy sizes: docs/transformers.md has the proof.
INDEPENDENT = (
    *("query-key", "rotary", "query-key-gains", "query-key-turns", "value-output", "unit-scale"),
    *("gain", "norm-bias", "key-bias", "value-bias", "parallel-bias", "router-shift"),
    *("read-centring", "write-centring", "stream-turns", "stream-shift", "table-shift"),
    *("tied-mean", "unused-positions", "unread", "logit-shift", "bias-shift", "layer-scale"),
    *("latent-turns", "stream-scale", "query-key-scale", "latent-scale"),
)

_OF_STREAM = ("stream-turns", "stream-scale")


def _roomy(spec: Transformer, kinds: list[str]) -> bool:
    """Whether every space is wide enough for the proof that these kinds are independent."""
    reads = spec.d - (spec.norm == "layer")
    narrow = min(spec.kvrank or reads, spec.qrank or reads)
    filled = spec.patch >= spec.d or spec.vocab > spec.d + 1
    return (
        all(kind in INDEPENDENT for kind in kinds)
        and (filled or not any(kind in _OF_STREAM for kind in kinds))
        and max(spec.head, spec.dv) <= narrow
        and max(spec.kvrank, spec.qrank, spec.rotary_dim) <= reads
        and spec.residual
        and (spec.norm != "none" or not spec.embedded)
        and not (spec.embed or spec.share or spec.mixnorm)
        and spec.skip == 1
        and spec.feature == spec.decay == "none"
    )


def symmetries_counted(spec: Transformer) -> tuple[list[str], tuple[Symmetry, ...]]:
    """The symmetries of all layers, those of one kind and name together; and their kinds."""
    _require_generic(spec)
    found: dict[tuple[str, str], Symmetry] = {}
    places: Counter[tuple[str, str]] = Counter()
    for piece in pieces(spec):
        if not piece.count:
            continue
        key = (piece.kind, piece.name)
        before = found.get(key)
        total = piece.count + (before.dimension if before else 0)
        places[key] += 1
        some = spec.by_mechanism and places[key] < spec.layers
        several = f"{places[key]} layers" if some else "all layers"
        where = piece.where if before is None or before.where == piece.where else several
        found[key] = Symmetry(piece.name, where, total, piece.group, piece.holds)
    return [kind for kind, _ in found], tuple(found.values())


def _sharpness(spec: Transformer) -> str:
    """Whether the formulas are proved to be all on a small network of the same design."""
    small = small_instance(spec)
    known = proved_instance(small)
    if known is not None:
        return (
            "no symmetry is missing from a small instance of the same design: dimension "
            f"{PROVED[known]} of {small.parameters} parameters, proved by segre dim {known}"
        )
    return f"to prove a small instance of the same design: segre dim {small}"


def proved_instance(small: Transformer) -> str | None:
    """The name of a small instance in the list of those that are proved, if it is there."""
    return _proved().get(small)


@cache
def _proved() -> dict[Spec, str]:
    return {architecture(known): known for known in PROVED}


def _require_generic(spec: Transformer) -> None:
    """The formulas are for heads no wider than the stream, and enough tokens to tell apart."""
    widest = max(spec.head, spec.dv)
    reads = min(spec.d, spec.kvrank or spec.d, spec.qrank or spec.d)
    if spec.embed and not (spec.share and spec.layers > 1):
        reads = min(reads, filled_by_embeddings(spec))
    if spec.patch or (spec.project and spec.normed_before):
        reads = min(reads, (spec.patch or spec.embed) + spec.t)
    if spec.cls and spec.read == "first" and spec.layers == 1:
        raise UnsupportedError(
            f"spec {quote(str(spec))}: with labels read from a class token the formulas need at "
            "least two layers, since the token is constant in the first"
        )
    if widest > reads or spec.d < 3 or spec.t < 2:
        raise UnsupportedError(
            f"spec {quote(str(spec))}: the formulas need d > 2, t > 1 and heads no wider than what "
            "they read; leave out --method count to compute smaller architectures"
        )
