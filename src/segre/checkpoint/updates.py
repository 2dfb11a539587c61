"""The rank of a change of weights: its singular values, compared with rounding.

A full fine-tune changes a matrix in all directions, an adapter such as LoRA in a few. Of heads,
the products of queries with keys and of values through outputs are compared: they do not depend on
the basis within a head. Hidden units that can be rescaled are compared at the same scale where
their inputs, or their outputs, are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import keys, queries
from segre.checkpoint.sizes import inner
from segre.fields.interface import Array

ENERGY = 0.99  # the share of the squared change that `directions` holds
_WHOLE = 1024  # matrices with a longer short side are sketched
_SKETCH = 512
_NOISE = 4.0  # times the size that rounding gives to a singular value
_FLOOR = 1e-7  # of the largest: what squaring leaves of singular values


@dataclass(frozen=True)
class Update:
    """The change of one matrix, or of the products of the heads of a layer."""

    part: str
    name: str
    distance: float  # relative to the matrix before
    rank: int  # directions beyond rounding; of heads, the most that one has
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


@dataclass(frozen=True)
class HeadUpdates:
    """The changes of one product of all heads of a layer."""

    distances: Array  # by query head, relative
    update: Update


def head_updates(
    part: str, before: Tensors, after: Tensors, roundoff: float
) -> dict[str, HeadUpdates]:
    """The changes of W_Q' W_K and W_O W_V, for each query head."""
    if not {"W_Q", "W_K", "W_V", "W_O"} <= {*before}:
        return {}
    return {
        name: _product_update(part, name, factors(before), factors(after), roundoff)
        for name, factors in (("QK", _scores), ("VO", _values))
    }


def at_best_scales(before: Tensors, after: Tensors, power: int, roundoff: float) -> Tensors:
    """`after` with its hidden units rescaled to `before`, if their inputs or outputs are unchanged.

    W_up times s and W_down over s^power is the same function. An adapter on one of the two leaves
    the other as it was but for the scale, which is then undone.
    """
    if not {"W_up", "W_down"} <= {*before}:
        return after
    up, down = after["W_up"], after["W_down"]
    reading = _fitted(before["W_up"], up, -1)
    writing = _fitted(before["W_down"], down, -2)
    for scales, name, fitted in (
        (reading, "W_up", up * reading[..., None]),
        (writing ** (-1 / power), "W_down", down * writing[..., None, :]),
    ):
        change, size = fitted - before[name], inner(before[name], before[name])
        if inner(change, change) <= (_NOISE * roundoff) ** 2 * size:
            rescaled = {"W_up": up * scales[..., None]}
            rescaled["W_down"] = down / scales[..., None, :] ** power
            if "b_up" in after:
                rescaled["b_up"] = after["b_up"] * scales.reshape(after["b_up"].shape)
            return {**after, **rescaled}
    return after


def _fitted(before: Array, after: Array, axis: int) -> Array:
    """For each unit, the factor that takes its vector after nearest to the one before."""
    squares = (after * after).sum(axis)
    factors = (before * after).sum(axis) / np.where(squares > 0, squares, 1)
    return np.where(factors > 0, factors, 1)


def _scores(w: Tensors) -> tuple[Array, Array]:
    return queries(w).swapaxes(-1, -2), keys(w)


def _values(w: Tensors) -> tuple[Array, Array]:
    return w["W_O"], w["W_V"]


def _product_update(
    part: str,
    name: str,
    before: tuple[Array, Array],
    after: tuple[Array, Array],
    roundoff: float,
) -> HeadUpdates:
    """Singular values of after - before, from their factors (kv, group, d, n) and (kv, 1, n, d)."""
    left = np.concatenate([before[0], after[0]], axis=-1)
    right = np.concatenate([-before[1], after[1]], axis=-2).swapaxes(-1, -2)
    spectra = np.linalg.svd(_core(left, right), compute_uv=False)
    spectra = spectra.reshape(-1, spectra.shape[-1])
    sizes = (_core(before[0], before[1].swapaxes(-1, -2)) ** 2).sum(axis=(-2, -1)).reshape(-1)
    squares = (spectra**2).sum(axis=-1)
    width = left.shape[-2]
    entry = np.sqrt(sizes) / width
    ranks = [
        _beyond(values, _NOISE * roundoff * float(one) * 2 * width**0.5)
        for values, one in zip(spectra, entry, strict=True)
    ]
    known = np.where(sizes > 0, sizes, 1.0)
    top = spectra[:, 0] ** 2
    widest = int(np.argmax(ranks))
    return HeadUpdates(
        np.sqrt(squares / known),
        Update(
            part,
            name,
            float(np.sqrt(squares.sum() / max(float(sizes.sum()), 1e-300))),
            ranks[widest],
            int(min(spectra.shape[-1], width)),
            max(_directions(values, float((values**2).sum())) for values in spectra),
            float(squares[widest] / top[widest]) if ranks[widest] else 0.0,
            spectrum=spectra[widest],
        ),
    )


def _core(left: Array, right: Array) -> Array:
    """A small matrix with the singular values of left @ right'."""
    return np.asarray(np.linalg.qr(left).R @ np.linalg.qr(right).R.swapaxes(-1, -2))


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
