"""In which other architecture is every function of this one? Its dimension is no smaller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

from segre.architectures import Architecture
from segre.attention import PLAIN
from segre.errors import UnluckyError
from segre.finding import Bound, Evidence
from segre.geometry.closed_form import ambient
from segre.geometry.point import Point
from segre.geometry.rank import SymmetryRank, symmetry_rank
from segre.spec import Network
from segre.theorems.design import Design
from segre.transformer.spec import Transformer

_STACKS = Design({"residual": (False,), "attn": PLAIN})  # transformers that are plain stacks


@dataclass(frozen=True)
class Wider:
    """Symmetries of the other architecture, at a separate point."""

    point: Point
    symmetry: SymmetryRank

    @property
    def bound(self) -> Bound:
        """What they say of the first."""
        spec = self.point.spec
        own, whole = self.symmetry.bound(spec.parameters), ambient(spec)
        within = f"every function is also a function of {spec}"
        if whole is not None and whole.value < own.value:
            return Bound(whole.value, Evidence("within", f"{within}: {whole.evidence.statement}"))
        return Bound(own.value, Evidence("within", f"{within}, which has {own.evidence.statement}"))


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
def _stack_or_without_norm(spec: Transformer) -> Architecture | None:
    """The same network as a stack; or embeddings without their norm, which may be any table too."""
    if not _STACKS.misfits(spec) and spec.kv == spec.heads and spec.mlp == "none":
        sizes = f"a={spec.head}/heads={spec.heads}/dv={spec.dv}/t={spec.t}"
        return Network.parse(f"{spec.attn}/d={spec.d}/layers={spec.layers}/{sizes}")
    alone = spec.discrete and not spec.tied and spec.pos != "learned" and not spec.types
    return replace(spec, embnorm=False) if alone and spec.embnorm and spec.firstnorm else None
