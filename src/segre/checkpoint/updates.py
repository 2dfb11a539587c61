"""The rank of a change of weights: its singular values, compared with rounding.

A full fine-tune changes a matrix in all directions, an adapter such as LoRA in a few. Heads are
also compared by their products, of queries with keys and of values through outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segre.checkpoint.compare import products
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import keys, planes, queries, still
from segre.checkpoint.sizes import inner
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

ENERGY = 0.99  # the share of the squared change that `directions` holds
_WHOLE = 1024  # matrices with a longer short side are sketched
_SKETCH = 512
_NOISE = 4.0  # times the size that rounding gives to a singular value
_FLOOR = 1e-7  # of the largest: what squaring leaves of singular values


@dataclass(frozen=True)
class Update:
    """The change of one matrix."""

    part: str
    name: str
    distance: float  # relative to the matrix before
    rank: int  # directions beyond rounding
    full: int  # the largest rank that there could be
    directions: int  # the fewest that hold 99 % of the squared change
    stable_rank: float  # squared Frobenius norm over squared spectral norm
    at_least: bool = False  # a large matrix was sketched, and all directions of the sketch count
    spectrum: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    @property
    def low_rank(self) -> bool:
        """Whether it has low rank: at most a quarter of full rank."""
        return 0 < 4 * self.rank <= self.full and not self.at_least

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON; the spectrum aside."""
        return {key: value for key, value in vars(self).items() if key != "spectrum"}


def matrix_update(
    part: str, name: str, before: Array, difference: Array, roundoff: float
) -> Update:
    """The update of one matrix."""
    matrix = as_matrix(name, difference)
    values, sketched = _singular_values(matrix)
    size = inner(before, before)
    entry = (size / before.size) ** 0.5
    noise = _NOISE * roundoff * entry * sum(n**0.5 for n in matrix.shape)
    square = inner(difference, difference)
    rank = _beyond(values, noise)
    return Update(
        part,
        name,
        (square / size) ** 0.5 if size else float(square > 0),
        rank,
        min(matrix.shape),
        _directions(values, square),
        square / float(values[0]) ** 2 if rank else 0.0,
        sketched and rank == len(values),
        values,
    )


def head_distances(spec: Transformer, before: Tensors, after: Tensors) -> dict[str, Array]:
    """Relative changes of W_Q' W_K, plane by plane if they turn, and W_O W_V: by query head."""
    if not {"W_Q", "W_K", "W_V", "W_O"} <= {*before}:
        return {}
    out = {}
    for name, factors in (("QK", _scores), ("VO", _values)):
        pairs = zip(factors(spec, before), factors(spec, after), strict=True)
        found = [products(*one, *two) for one, two in pairs]
        apart, sizes = (
            sum((x**2).reshape(spec.heads, -1).sum(axis=1) for x in every)
            for every in zip(*found, strict=True)
        )
        out[name] = np.sqrt(apart / np.where(sizes > 0, sizes, 1.0))
    return out


def _values(_spec: Transformer, w: Tensors) -> list[tuple[Array, Array]]:
    return [(w["W_O"], w["W_V"])]


def _scores(spec: Transformer, w: Tensors) -> list[tuple[Array, Array]]:
    """Factors of the products: of planes, whose two products are side by side, and of the rest."""
    q, k = planes(spec, queries(w)), planes(spec, keys(w))
    both = ((k.real, k.imag), (k.imag, -k.real))
    right = np.stack([np.concatenate(pair, axis=-1) for pair in both], axis=-2)
    rest = still(spec, queries(w)).swapaxes(-1, -2), still(spec, keys(w))
    return [(np.stack([q.real, q.imag], axis=-1), right), rest]


def as_matrix(name: str, tensor: Array) -> Array:
    """A tensor as the matrix that a file has: heads under each other, or beside each other."""
    if tensor.ndim == 2:
        return tensor
    if name == "W_O":
        return np.moveaxis(tensor, -2, 0).reshape(tensor.shape[-2], -1)
    return tensor.reshape(-1, tensor.shape[-1])


def _singular_values(matrix: Array) -> tuple[Array, bool]:
    """The largest first; of a large matrix, those of a sketch, which has at most so many."""
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    sketched = len(short) > _WHOLE
    if sketched:
        drawn = np.random.default_rng(0).standard_normal((short.shape[1], _SKETCH))
        basis, _ = np.linalg.qr(short @ drawn.astype(short.dtype))
        short = basis.T @ short
    wide = short.astype(np.float64)
    return np.sqrt(np.linalg.eigvalsh(wide @ wide.T).clip(0))[::-1], sketched


def _beyond(values: Array, noise: float) -> int:
    top = float(values[0]) if len(values) else 0.0
    return int((values > max(noise, _FLOOR * top)).sum()) if top > noise else 0


def _directions(values: Array, square: float) -> int:
    """How many of the largest singular values carry most of the squared norm."""
    if not square:
        return 0
    return min(len(values), int((np.cumsum(values**2) < ENERGY * square).sum()) + 1)
