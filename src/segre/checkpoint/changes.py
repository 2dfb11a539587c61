"""Where two checkpoints differ: by layer, piece, head, unit and token, in one gauge.

Files that were never moved already share a gauge and are compared as stored. If symmetries explain
the greater part of a difference, the second is first moved into the gauge of the first, so that
only changes of the function count. Everything is counted and listed in that one gauge.

A full fine-tune changes a matrix in all directions, an adapter such as LoRA in a few: the singular
values of a change, compared with rounding. Heads are also compared by their products, of queries
with keys and of values through outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, Change, FartherError, squares
from segre.checkpoint.compare import products
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.planes import keys, planes, queries, still
from segre.checkpoint.sizes import apart, inner
from segre.checkpoint.steady import Steady
from segre.fields.interface import Array
from segre.transformer.spec import Transformer
from segre.transformer.tensors import of_mlp

PIECES = ("QK", "VO", "MLP", "norms", "tables")
MOST = 20  # heads, units and tokens that are listed
ENERGY = 0.99  # the share of the squared change that `directions` holds
_ROUNDING = 8.0  # times the unit roundoff: what moves less is not listed
_MOVED = 2.0  # times the roundoff: what was moved was rounded in another basis
_FAR = 0.5  # relative distance of a tensor that says that it may have been moved
_GAUGE = 0.5  # share of the squared difference of a part that says that it was moved
_WHOLE = 1024  # matrices with a longer short side are sketched
_SKETCH = 512
_NOISE = 4.0  # times the size that rounding gives to a singular value
_FLOOR = 1e-7  # of the largest: what squaring leaves of singular values


@dataclass(frozen=True)
class Spot:
    """A head, a unit or a token, and how much it changed."""

    part: str
    number: int  # heads and units from 1, tokens by their ids
    distance: float
    text: str = ""


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


@dataclass
class Changes:
    """What has changed, part by part."""

    moved: bool  # whether the second was brought into the gauge of the first
    roundoff: float = 0.0  # what counts as rounding, relative to a number
    total: Change = field(default_factory=Change)
    grid: dict[tuple[str, str], Change] = field(default_factory=dict)  # by part and piece
    others: dict[tuple[str, str], Change] = field(default_factory=dict)  # by part and kind
    updates: list[Update] = field(default_factory=list)
    heads: list[Spot] = field(default_factory=list)
    units: list[Spot] = field(default_factory=list)
    tokens: list[Spot] = field(default_factory=list)

    def beyond(self, change: Change) -> bool:
        """Whether a change is more than rounding."""
        return change.after > (_ROUNDING * self.roundoff) ** 2 * change.size

    def summed(self, axis: int) -> dict[str, Change]:
        """By part (0) or by piece (1)."""
        out: dict[str, Change] = {}
        for key, change in self.grid.items():
            out.setdefault(key[axis], Change()).add(change.size, change.raw, change.after)
        return out


def changes(one: Model, two: Model, progress: Progress = no_progress) -> Changes:
    """What changed from the first model to the second; both in one form."""
    far, raw = _farthest(one, two)
    if raw:
        found = None
        if far or _explained(_moved(Alignment(one, two, 1, progress), listed=False), far):
            found = _moved(Steady(one, two, 1, progress))
        if found is not None and _explained(found, far):
            return found
    stored = ((part, two.part(part)) for part in one.parts)
    return _compared(Changes(False), one, two, stored, progress)


def _farthest(one: Model, two: Model) -> tuple[bool, float]:
    """Whether any tensor is far from its counterpart; and the squared difference of all."""
    far, total = False, 0.0
    for part in one.parts:
        for name, before in one.part(part).items():
            raw = two.part(part, [name])[name]
            square = apart(before, raw)
            total += square
            far = far or (raw.ndim > 1 and square > _FAR**2 * inner(before, before))
    return far, total


def _moved(alignment: Alignment, *, listed: bool = True) -> Changes | None:
    """What changed, with the second in the gauge of the first; None if that is farther away."""
    one, two, progress = alignment.one, alignment.two, alignment.progress
    try:
        return _compared(Changes(True), one, two, alignment.parts(), progress, listed=listed)
    except FartherError:
        return None


def _explained(found: Changes | None, far: bool) -> bool:
    """Whether symmetries explain a difference, at least of one part."""
    if found is None:
        return False
    if far and found.total.after < 0.99 * found.total.raw:
        return True
    rounding = (_ROUNDING * found.roundoff) ** 2
    return any(
        change.after < (1 - _GAUGE) * change.raw and change.raw > rounding * change.size
        for change in found.summed(0).values()
    )


def _compared(
    found: Changes,
    one: Model,
    two: Model,
    parts: Iterable[tuple[str, Tensors]],
    progress: Progress,
    *,
    listed: bool = True,
) -> Changes:
    """Count the squares of all parts, and list what changed in them."""
    found.roundoff = max(one.roundoff(), two.roundoff()) * (_MOVED if found.moved else 1)
    for done, (part, after) in enumerate(parts):
        progress("differences", done, len(one.parts))
        before, raw = one.part(part), two.part(part)
        for name, value in before.items():
            counted = [found.total, found.grid.setdefault((part, piece_of(part, name)), Change())]
            if not is_matrix(part, name):
                counted.append(found.others.setdefault((part, kind_of(part, name)), Change()))
                if found.moved and name == "b_U":  # with shifts of the table, and their rounding
                    table = before.get("W_U", one.part("embed").get("tokens", value))
                    counted[-1].add(inner(table, table))
            numbers = squares(value, raw[name], after[name])
            for change in counted:
                change.add(*numbers)
        if listed:
            _list(found, one.spec.at(part), part, before, after)
    return found


def piece_of(part: str, name: str) -> str:
    """The piece that a tensor belongs to."""
    if ".gain" in name or ".bias" in name:
        return "norms"
    if part in ("embed", "head"):
        return "tables"
    if of_mlp(name):
        return "MLP"
    return "VO" if name.partition("_")[2][:1] in ("V", "O", "G") else "QK"


def is_matrix(part: str, name: str) -> bool:
    """Whether a tensor is a matrix of a layer, whose change has a rank."""
    return part not in ("embed", "head") and name.startswith(("W_", "S_", "A_", "R_"))


def kind_of(part: str, name: str) -> str:
    """Tensors that are not matrices of layers, in a word."""
    piece = piece_of(part, name)
    if piece in ("norms", "tables"):
        return piece
    return "biases" if name.startswith(("b_", "c_")) else name


# --- heads, units, tokens -------------------------------------------------------------------------


def _list(found: Changes, spec: Transformer, part: str, before: Tensors, after: Tensors) -> None:
    """Add the updates of a part, and its heads, units and tokens that moved most."""
    roundoff = found.roundoff
    for name, value in before.items():
        if is_matrix(part, name):
            difference = after[name] - value
            found.updates.append(matrix_update(part, name, value, difference, roundoff))
    if "tokens" in before:
        found.tokens += _most(part, _relative(before, after, {"tokens": 0}), 0, roundoff)
    axes = {"W_up": -1, "W_gate": -1, "W_down": -2}
    if own := {name: axis for name, axis in axes.items() if name in before}:
        found.units += _most(part, _relative(before, after, own), 1, roundoff)
    if by := head_distances(spec, before, after):
        found.heads += _most(part, np.max([*by.values()], axis=0), 1, roundoff, by)


def _relative(before: Tensors, after: Tensors, axes: dict[str, int]) -> Array:
    """Relative changes of members whose entries lie along an axis of some tensors."""
    sizes: Array = sum(((before[n] ** 2).sum(axis) for n, axis in axes.items()), np.zeros(()))
    far = sum(((after[n] - before[n]) ** 2).sum(axis) for n, axis in axes.items())
    return np.asarray(np.sqrt(far / np.where(sizes > 0, sizes, 1)))


def _most(
    part: str, distances: Array, first: int, roundoff: float, by: dict[str, Array] | None = None
) -> list[Spot]:
    """The members of a part that changed most, beyond rounding; `by` names the products.

    Units of experts, (experts, units), come with the number of the expert.
    """
    out = []
    for at in np.argsort(-distances, axis=None)[:MOST]:
        *expert, n = map(int, np.unravel_index(at, distances.shape))
        if distances.flat[at] > _ROUNDING * roundoff:
            words = [f"{name} {one[n]:.2g}" for name, one in (by or {}).items()]
            words += [f"expert {number + 1}" for number in expert]
            out.append(Spot(part, n + first, float(distances.flat[at]), ", ".join(words)))
    return out


def head_distances(spec: Transformer, before: Tensors, after: Tensors) -> dict[str, Array]:
    """Relative changes of W_Q' W_K, plane by plane if they turn, and W_O W_V: by query head."""
    if not {"W_Q", "W_K", "W_V", "W_O"} <= {*before}:
        return {}
    ours, theirs = ({"QK": _scores(spec, w), "VO": [(w["W_O"], w["W_V"])]} for w in (before, after))
    out = {}
    for name in ours:
        found = [products(*x, *y) for x, y in zip(ours[name], theirs[name], strict=True)]
        apart, sizes = (
            sum((x**2).reshape(spec.heads, -1).sum(axis=1) for x in every)
            for every in zip(*found, strict=True)
        )
        out[name] = np.sqrt(apart / np.where(sizes > 0, sizes, 1.0))
    return out


def _scores(spec: Transformer, w: Tensors) -> list[tuple[Array, Array]]:
    """Factors of the products: of planes, whose two products are side by side, and of the rest."""
    q, k = planes(spec, queries(w)), planes(spec, keys(w))
    both = ((k.real, k.imag), (k.imag, -k.real))
    right = np.stack([np.concatenate(pair, axis=-1) for pair in both], axis=-2)
    rest = still(spec, queries(w)).swapaxes(-1, -2), still(spec, keys(w))
    return [(np.stack([q.real, q.imag], axis=-1), right), rest]


# --- the rank of a change -------------------------------------------------------------------------


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
    top = float(values[0]) if len(values) else 0.0
    rank = int((values > max(noise, _FLOOR * top)).sum()) if top > noise else 0
    most = int((np.cumsum(values**2) < ENERGY * square).sum()) + 1 if square else 0
    return Update(
        part,
        name,
        (square / size) ** 0.5 if size else float(square > 0),
        rank,
        min(matrix.shape),
        min(len(values), most),
        square / top**2 if rank else 0.0,
        sketched and rank == len(values),
        values,
    )


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
