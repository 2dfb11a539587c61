"""The finite action on weights of floats, part by part, and its inverse.

A large model is moved part by part. What acts on a part may depend on gains and biases of norms in
other parts, which are then moved along with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from segre.fields.interface import Array
from segre.symmetry.all import transformer_pieces
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants, Entries, Several, Slack
from segre.symmetry.finite import finite
from segre.symmetry.orders import Order
from segre.symmetry.piece import Piece
from segre.symmetry.space import FloatWeights, Tensor
from segre.symmetry.special import CommonForm, Mean, UnseenShift, ValueKernel
from segre.transformer.spec import Transformer

Special = Mean | UnseenShift | CommonForm | ValueKernel
Actor = Basis | Scale | Constants | Slack | Entries | Special | Order
Move = list[tuple[Actor, Array]]  # what acts, and by which element, in order
Read = Callable[[Tensor], Array]


@lru_cache(maxsize=8)
def actors(spec: Transformer) -> tuple[Actor, ...]:
    """All that acts as a group: gains, slack, constants, other bases and scales, then orders."""
    every = list(_free(transformer_pieces(spec)))
    gains = [one for one in every if isinstance(one, Basis) and one.vector]
    out: list[Actor] = [*gains, *(one for one in every if isinstance(one, Slack | Entries))]
    out += [one for one in every if isinstance(one, Constants)]
    out += [one for one in every if isinstance(one, Special)]
    out += [one for one in every if isinstance(one, Basis | Scale) and one not in gains]
    return (*out, *(order for one in finite(spec) for order in one.orders))


def _free(pieces: Iterable[Piece]) -> Iterator[object]:
    for piece in pieces:
        if piece.hard:  # words move by themselves
            continue
        if isinstance(piece.build, Several):
            yield from piece.build.free
        else:
            yield piece.build


class Partwise(ABC):
    """Acts on the parts of a model one after the other, with elements of what is free."""

    def __init__(self, spec: Transformer, read: Read, free: tuple[Actor, ...]) -> None:
        """`read` gives a tensor of the model as it is."""
        self.spec, self.read, self.free = spec, read, free
        self.sizes: dict[Tensor, float] = {}
        self.beside: dict[Tensor, Array] = {}  # of other parts, moved along with the last one
        self._kept: dict[int, Array] = {}
        self._asked = {tensor for one in free for tensor in one.needed}

    def part(self, part: str, tensors: dict[str, Array], *, owned: bool = False) -> Move:
        """Act on the tensors of a part, in place, and say with what.

        Of arrays that are the caller's own, numbers may be changed where they are.
        """
        w = FloatWeights(self.spec, {(part, name): x for name, x in tensors.items()}, self.sizes)
        w.owned = owned
        while missing := {t for one in self.free if _concerns(one, w) for t in one.needed} - set(
            w.tensors
        ):
            w.tensors.update({tensor: self.read(tensor) for tensor in missing})
        out: Move = []
        for i, one in enumerate(self.free):
            if not _concerns(one, w):
                continue
            if i in self._kept:
                one.act(w, self._kept[i])
                out.append((one, self._kept[i]))
            else:
                out.append((one, self.chosen(i, one, w)))
                if len({where for where, _ in one.tensors}) > 1 or self._asked & {*one.tensors}:
                    self._kept[i] = out[-1][1]  # other parts need it
        tensors.update(w.part(part))
        self.beside = {tensor: x for tensor, x in w.tensors.items() if tensor[0] != part}
        return out

    @abstractmethod
    def chosen(self, number: int, one: Actor, w: FloatWeights) -> Array:
        """Choose an element, act with it, and return the one that can be undone."""


def _concerns(one: Actor, w: FloatWeights) -> bool:
    return any(tensor in w.tensors for tensor in one.tensors)


def undo(w: FloatWeights, move: Move) -> None:
    """Act with the inverse elements, last first, in place."""
    for one, element in reversed(move):
        one.act(w, one.inverse(element))
