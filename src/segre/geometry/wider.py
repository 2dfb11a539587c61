"""In which other architecture is every function of this one? Its dimension is no smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from segre.architectures import Architecture
from segre.errors import UnluckyError
from segre.finding import Bound, Evidence
from segre.geometry.point import Point
from segre.geometry.rank import SymmetryRank, symmetry_rank
from segre.transformer.spec import Transformer


@dataclass(frozen=True)
class Wider:
    """Symmetries of the other architecture, at a separate point."""

    point: Point
    symmetry: SymmetryRank

    @property
    def bound(self) -> Bound:
        """What they say of the first."""
        spec = self.point.spec
        own = self.symmetry.bound(spec.parameters)
        statement = (
            f"every function is also a function of {spec}, which has {own.evidence.statement}"
        )
        return Bound(own.value, Evidence("within", statement))


def wider_bound(spec: Architecture, point: Point) -> Wider | None:
    """The best bound by another architecture, where there is one."""
    found: list[Wider] = []
    for other in wider(spec):
        try:
            there = Point(other, point.field)
            found.append(Wider(there, symmetry_rank(there)))
        except UnluckyError:
            continue
    return min(found, key=lambda own: own.bound.value, default=None)


def wider(spec: Architecture) -> Iterator[Transformer]:
    """Architectures whose words may be any table, where those of this one are a table too.

    Embeddings without their norm; and of a single token, the last layer alone: what comes before it
    gives each word some vector.
    """
    if not isinstance(spec, Transformer) or not spec.discrete or spec.tied:
        return
    alone = spec.pos != "learned" and not spec.types
    if alone and spec.embnorm and spec.firstnorm:
        yield replace(spec, embnorm=False)
    if spec.t == 1 and spec.layers > 1 and _like_last(spec):
        yield replace(spec, layers=1, embnorm=False)


def _like_last(spec: Transformer) -> bool:
    """Whether the last layer on words of its own is a spec."""
    odd = spec.types or spec.embed or spec.dense or spec.window or spec.pos == "learned"
    alike = all(spec.at(i) == spec.at(1) for i in range(1, spec.layers + 1))
    return spec.firstnorm and not odd and alike
