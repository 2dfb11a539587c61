"""The effect of a design choice on the symmetries, found by undoing it and counting again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from segre.architectures import Architecture
from segre.attention import NAMED
from segre.attention import PLAIN as NAMES
from segre.attention.layer import Group
from segre.attention.mechanism import Mechanism
from segre.errors import TooLargeError, UnluckyError
from segre.geometry.memory import bytes_for_symmetries, require_memory
from segre.geometry.point import Point
from segre.geometry.rank import SymmetryRank, symmetry_rank
from segre.polynomial.spec import Dense, Polynomial
from segre.spec import Network


@dataclass(frozen=True)
class Choice:
    """A design choice, its alternative, and the change in redundancy."""

    name: str
    instead: str
    spec: Architecture  # the same network with the other choice
    change: dict[str, int]  # by piece: redundant parameters with the other choice, minus here

    @property
    def total(self) -> int:
        """Total number of redundant parameters with the alternative, minus that of this choice."""
        return sum(self.change.values())

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "choice": self.name,
            "instead_of": self.instead,
            "spec": str(self.spec),
            "change": self.change,
            "total": self.total,
        }


# What the pieces of a stack are called, whatever their sizes.
_KINDS = {
    "query-key": "query-key bases",
    "skew-scores": "skew parts of scores",
    "value-output": "value-output bases",
    "scale": "scales of scores against values",
    "between": "bases between layers",
    "unread": "directions that no layer reads",
    "unreached": "directions that no token reaches",
    "mix-heads": "mixing of heads",
    "mix-some-heads": "mixing of some heads",
    "mix-factored-heads": "mixing of heads with separate outputs",
    "filled": "weights of heads whose joint tensor has fewer entries",
    "silent-scores": "scores without effect",
    "pooled-heads": "differences of heads",
    "scales": "scales of hidden units",
    "shift": "biases against later biases",
}


def choices_undone(
    spec: Network | Polynomial, here: SymmetryRank, seed: int, memory: int
) -> Iterator[Choice]:
    """The choices; those that would need too much memory to undo are left out."""
    for name, instead, other in _alternatives(spec):
        try:
            require_memory(other, bytes_for_symmetries(other), memory)
            there = _by_kind(symmetry_rank(Point.draw(other, seed)))
        except (TooLargeError, UnluckyError):
            continue
        mine = _by_kind(here)
        change = {kind: there[kind] - mine[kind] for kind in _KINDS.values()}
        yield Choice(name, instead, other, {kind: n for kind, n in change.items() if n})


def _by_kind(found: SymmetryRank) -> Counter[str]:
    out: Counter[str] = Counter()
    for piece in found.pieces:
        out[_KINDS[piece.kind]] += piece.dimension
    return out


@singledispatch
def _alternatives(spec: Architecture) -> Iterator[tuple[str, str, Architecture]]:
    raise TypeError(f"alternatives to a {type(spec).__name__} are not known")


@_alternatives.register
def _of_stack(spec: Network) -> Iterator[tuple[str, str, Architecture]]:
    for name in NAMES:
        if name != spec.score:
            yield f"{spec.score} attention", f"{name} attention", _of_heads(spec, NAMED[name])
    heads = list(spec.layers)
    if any(one.heads > 1 for one in heads):
        yield "several heads", "one head in every layer", _of_heads(spec, spec.mechanism, 1)
    if any(one.dv is not None for one in heads):
        instead = "one value matrix for each head"
        yield "factored value matrices", instead, one_value_matrix(spec)


@_alternatives.register
def _of_polynomial(spec: Polynomial) -> Iterator[tuple[str, str, Architecture]]:
    if spec.degree > 1 and spec.depth > 1:
        name = f"the activation x^{spec.degree}"
        yield name, "no activation", replace(spec, degree=1)
    if spec.bias:
        yield "biases", "no biases", replace(spec, bias=False)
    if spec.convolutional:
        layers = tuple(Dense(layer.width_in, layer.width_out) for layer in spec.layers)
        yield "shared filters", "dense layers of the same widths", replace(spec, layers=layers)


def _of_heads(spec: Network, how: Mechanism, count: int = 0) -> Network:
    """The same stack with another mechanism in all heads, or another number of heads."""
    layers = (replace(layer, groups=(Group(how, count or layer.heads),)) for layer in spec.layers)
    return replace(spec, layers=tuple(layers))


def one_value_matrix(spec: Network) -> Network:
    """The same stack without factored value maps."""
    return replace(spec, layers=tuple(replace(layer, dv=None) for layer in spec.layers))
