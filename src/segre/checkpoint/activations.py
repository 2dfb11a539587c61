"""Activations of the parts of a checkpoint on tokens; parts are run while they are read.

Reduced weights (`reduce`) have the same function, so they can be run like any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from segre.checkpoint.layout import Tensors
from segre.fields import Real
from segre.fields.interface import Array
from segre.transformer.forward import (
    Place,
    Tokens,
    embed,
    finished,
    sublayer_weights,
    through,
)
from segre.transformer.spec import Transformer


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

    def layer(self, w: Tensors, points: Sequence[str] = ()) -> Iterator[Tensors]:
        """The values at some points of a layer, (..., rows, tokens), for every depth it is at."""
        if not self.streams:
            self.embed({})  # the stream begins with its inputs
        spec = self.spec
        read = partial(sublayer_weights, OnePart(spec, w))
        for _ in range(spec.layers if spec.share else 1):
            self.depth += 1
            seen: dict[str, list[Array]] = {}

            def keep(
                _place: Place, name: str, x: Array, seen: dict[str, list[Array]] = seen
            ) -> Array:
                if name in points:
                    seen.setdefault(name, []).append(_beside(x))
                return x

            finished(
                through(spec, [self.depth], [self.streams], self.batches, Real(), read, hook=keep)
            )
            yield {name: np.concatenate(found, axis=-1) for name, found in seen.items()}


def _beside(x: Array) -> Array:
    """Columns of all inputs (inputs, ..., rows, t) side by side: (..., rows, tokens)."""
    x = np.moveaxis(x, 0, -2)
    return x.reshape(*x.shape[:-2], -1)
