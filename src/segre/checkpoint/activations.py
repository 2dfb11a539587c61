"""Activations of the parts of a checkpoint on tokens; parts are run while they are read.

Reduced weights (`reduce`) have the same function, so they can be run like any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segre.checkpoint.layout import Tensors
from segre.fields import Real
from segre.fields.interface import Array
from segre.transformer.forward import ATTENTION, MLP, Tokens, at_length, embed, sublayer_weights
from segre.transformer.spec import Transformer
from segre.transformer.stages import sublayer


@dataclass(frozen=True)
class OnePart:
    """The tensors of one part, as a source of weights."""

    spec: Transformer
    tensors: Tensors

    def part(
        self, _part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors, or only the named ones."""
        wanted = self.tensors if names is None else names
        return {n: self.tensors[n].astype(dtype, copy=False) for n in wanted if n in self.tensors}

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of an embedding table."""
        return np.asarray(self.tensors[name][:, which], dtype)


class Watching(Real):
    """Double precision that records the inputs of watched matrices."""

    def __init__(self, watched: Tensors) -> None:
        super().__init__()
        self.names = {id(value): name for name, value in watched.items()}
        self.seen: Tensors = {}

    def matmul(self, x: Array, y: Array) -> Array:
        """A matrix product; the second factor is recorded if the first is watched."""
        if id(x) in self.names:
            self.seen[self.names[id(x)]] = y
        return super().matmul(x, y)


class Run:
    """The state of a checkpoint while it runs on tokens."""

    def __init__(self, spec: Transformer, batches: Sequence[Tokens]) -> None:
        self.spec, self.batches, self.depth = spec, batches, 0
        self.streams: list[Array] = []

    @property
    def stream(self) -> Array:
        """The stream of all tokens, side by side: (d, tokens)."""
        return np.concatenate([_beside(x)[0, 0] for x in self.streams], axis=-1)

    def embed(self, w: Tensors) -> None:
        """Run the embedding, up to the first layer."""
        source = OnePart(self.spec, w)
        self.streams = [embed(source, tokens, Real()) for tokens in self.batches]

    def layer(self, w: Tensors, watched: Sequence[str] = ()) -> Iterator[Tensors]:
        """The inputs of some maps of a layer, (..., rows, tokens), for every depth it is at."""
        if not self.streams:
            self.embed({})  # the stream begins with its inputs
        for _ in range(self.spec.layers if self.spec.share else 1):
            self.depth += 1
            begin = list(self.streams)
            seen: Tensors = {}
            for number in (ATTENTION, MLP) if self.spec.mlp != "none" else (ATTENTION,):
                seen |= self._sublayer(w, number, begin, watched)
            yield seen

    def _sublayer(
        self, w: Tensors, number: int, begin: list[Array], watched: Sequence[str]
    ) -> Tensors:
        spec = self.spec
        w = sublayer_weights(OnePart(spec, w), self.depth, number)
        found: list[Tensors] = []
        for i, tokens in enumerate(self.batches):
            field = Watching({name: w[name] for name in watched if name in w})
            self.streams[i] = sublayer(
                field,
                w,
                self.streams[i],
                spec=at_length(spec, tokens.length),
                layer=self.depth,
                number=number,
                reads=begin[i] if spec.parallel and number == MLP else None,
            )
            found.append({name: _beside(x) for name, x in field.seen.items()})
        return {name: np.concatenate([one[name] for one in found], axis=-1) for name in found[0]}


def _beside(x: Array) -> Array:
    """Columns of all inputs (inputs, ..., rows, t) side by side: (..., rows, tokens)."""
    x = np.moveaxis(x, 0, -2)
    return x.reshape(*x.shape[:-2], -1)
