"""Random weights of a transformer, as before training.

Matrices are normal with standard deviation 0.02, biases are 0 and gains 1. Every tensor is drawn
separately, from the seed and its name, when it is needed, so that a model larger than memory can be
run. The same holds for every column of an embedding table.

>>> from segre.transformer.spec import Transformer
>>> weights = Drawn(Transformer.parse("transformer/d=4/vocab=100000/t=3"), seed=1)
>>> weights.columns("tokens", np.array([7, 99999])).shape
(4, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from segre.fields.interface import Array
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

DEVIATION = 0.02
TABLES = ("tokens", "positions", "types")


@dataclass(frozen=True)
class Drawn:
    """The weights of a spec for a seed, always in single precision."""

    spec: Transformer
    seed: int = 0

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> dict[str, Array]:
        """The tensors of a part, or only the named ones."""
        shapes = part_shapes(self.spec, part)
        wanted = shapes if names is None else [name for name in shapes if name in set(names)]
        return {name: self._tensor(part, name, shapes[name], dtype) for name in wanted}

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of an embedding table."""
        rows = part_shapes(self.spec, "embed")[name][0]
        drawn = [self._normal(f"embed.{name}", (rows,), int(column)) for column in which]
        return np.array(drawn, dtype=dtype).reshape(len(which), rows).T

    def _tensor(self, part: str, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        if part == "embed" and name in TABLES:
            return self.columns(name, np.arange(shape[1]), dtype)
        if name.endswith(".gain"):
            return np.ones(shape, dtype)
        if name.startswith(("b_", "c_")) or name.endswith(".bias"):
            return np.zeros(shape, dtype)
        return self._normal(f"{part}.{name}", shape).astype(dtype, copy=False)

    def _normal(self, name: str, shape: tuple[int, ...], *more: int) -> Array:
        rng = np.random.default_rng([self.seed, crc32(name.encode()), *more])
        out = rng.standard_normal(shape, dtype=np.float32)
        out *= np.float32(DEVIATION)
        return out
