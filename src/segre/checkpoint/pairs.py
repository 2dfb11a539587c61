"""Two checkpoints of one architecture, part by part, in one basis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import (
    match_head,
    match_layer,
    match_sign,
    match_stream,
    undetermined,
    unembedding_products,
)
from segre.checkpoint.model import Model
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.witness import Witness
from segre.fields.interface import Array
from segre.symmetry.compact import Elements, act
from segre.transformer.spec import Transformer

TABLES = ("tokens", "positions", "types")


@dataclass
class Finder(Witness):
    """Elements found on the way, and kept as a witness."""

    in_place: bool = False  # the stream is in the same basis in both
    undetermined: bool = False  # found: tables leave a part of that basis open
    near: float = 0.0  # gains of rotary planes this near, relative, count as equal

    def stream(
        self, spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None
    ) -> Elements:
        """The basis of the stream."""
        if self.in_place:
            self.basis = match_sign(spec, one, two)
        else:
            self.basis = match_stream(spec, one, two, unembedded)
            self.undetermined = undetermined(spec, one, two, unembedded)
        return self.basis

    def units(self, spec: Transformer, one: Tensors, two: Tensors) -> None:
        """Bring the units of the head of `two` near to those of `one`, in place."""
        self.head = match_head(spec, one, two)

    def layer(self, spec: Transformer, part: str, one: Tensors, two: Tensors) -> None:
        """Bring heads and units of a layer of `two` near to those of `one`, in place."""
        self.layers[part] = match_layer(spec, part, one, two, self.near)


class Centred(Finder):
    """Looks for the basis of the stream in tables without their means, which training shifts."""

    def stream(
        self, spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None
    ) -> Elements:
        """The basis of the stream."""
        self.basis = match_stream(spec, centred(one), centred(two), unembedded)
        return self.basis


def centred(w: Tensors) -> Tensors:
    """The tensors of a part, tables without the mean over their tokens."""
    return {
        name: x - x.mean(axis=1, keepdims=True) if name in TABLES else x for name, x in w.items()
    }


def aligned_pairs(
    one: Model,
    two: Model,
    turns: Witness,
    first: Callable[[Reduced], None] = lambda _: None,
) -> Iterator[tuple[Reduced, Reduced]]:
    """Parts of both, reduced, the second in the basis of the first; one part at a time.

    `first` is given a part of the first before that of the second is read.
    """
    spec = one.spec
    turns.spec, others = spec, reduced(two)
    basis: Elements = {}
    for a in reduced(one):
        first(a)
        b = next(others)
        w = b.tensors
        if a.part == "embed":
            basis = turns.stream(spec, a.tensors, w, unembedding_products(one, two))
        act(spec, a.part, basis, w, stream=True, owned=True)
        if a.part == "head":
            turns.units(spec, a.tensors, w)
        elif a.part != "embed":
            turns.layer(spec, a.part, a.tensors, w)
        yield a, b
