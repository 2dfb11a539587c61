"""A random element of the whole group acts on weights of floats, part by part."""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.action import Actor, Move, Partwise, Read, actors
from segre.symmetry.constants import Constants
from segre.symmetry.reduction import Reduction
from segre.symmetry.space import FloatWeights, Tensor
from segre.transformer.spec import Transformer


class RandomMove(Partwise):
    """An element drawn piece by piece from a seed; gains are made 1 first, and then drawn anew.

    So no gain vanishes that a basis of the stream is seen through.
    """

    def __init__(self, spec: Transformer, seed: int, read: Read) -> None:
        """`read` gives a tensor of the model as it is."""
        self.plain = Reduction(spec, read, gains_only=True)
        super().__init__(spec, self._read_plain, actors(spec))
        self.seed, self._read = seed, read

    def _read_plain(self, tensor: Tensor) -> Array:
        part, name = tensor
        names = {name}
        for one in self.plain.free:
            if tensor in one.tensors:
                read = [p.tensor for p in one.readers] if isinstance(one, Constants) else []
                names |= {own for where, own in (*one.tensors, *read) if where == part}
        found = {own: self._read((part, own)) for own in names}
        self.plain.part(part, found)
        return found[name]

    def part(self, part: str, tensors: dict[str, Array], *, owned: bool = False) -> Move:
        """Act on the tensors of a part, in place, and say with what."""
        first = self.plain.part(part, tensors, owned=owned)
        return [*first, *super().part(part, tensors, owned=owned)]

    def chosen(self, number: int, one: Actor, w: FloatWeights) -> Array:
        """Drawn once; sizes of constants are those of the tensors that have them."""
        for tensor in one.tensors if isinstance(one, Constants) else ():
            if tensor not in w.tensors and tensor not in self.sizes:
                value = self.read(tensor)
                FloatWeights(self.spec, {tensor: value}, self.sizes).size(tensor)
        element = one.draw(np.random.default_rng([self.seed, number]), w)
        one.act(w, element)
        return element
