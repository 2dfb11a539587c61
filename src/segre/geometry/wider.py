"""In which other architecture is every function of this one? Its dimension is no smaller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

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
    """The bound by another architecture, where there is one."""
    other = wider(spec)
    if other is None:
        return None
    try:
        there = Point(other, point.field)
        return Wider(there, symmetry_rank(there))
    except UnluckyError:
        return None


@singledispatch
def wider(_spec: Architecture) -> Architecture | None:
    """Another architecture that has every function of this one, if there is one."""
    return None


@wider.register
def _without_norm(spec: Transformer) -> Architecture | None:
    """Embeddings without their norm: their words may be any table, and so may the normed ones."""
    alone = spec.discrete and not spec.tied and spec.pos != "learned" and not spec.types
    return replace(spec, embnorm=False) if alone and spec.embnorm and spec.firstnorm else None
