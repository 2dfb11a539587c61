"""Where two checkpoints differ: by layer, piece, head, unit and token, in one gauge.

Files that were never moved already share a gauge and are compared as stored. If symmetries explain
the greater part of a difference, the second is first moved into the gauge of the first, so that
only changes of the function count. Everything is counted and listed in that one gauge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, FartherError
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.sizes import apart, inner
from segre.checkpoint.steady import Steady
from segre.checkpoint.updates import Update, head_distances, matrix_update
from segre.fields.interface import Array
from segre.transformer.spec import Transformer
from segre.transformer.tensors import of_mlp

PIECES = ("QK", "VO", "MLP", "norms", "tables")
MOST = 20  # heads, units and tokens that are listed
_ROUNDING = 8.0  # times the unit roundoff: what moves less is not listed
_MOVED = 2.0  # times the roundoff: what was moved was rounded in another basis
_FAR = 0.5  # relative distance of a tensor that says that it may have been moved
_GAUGE = 0.5  # share of the squared difference of a part that says that it was moved


@dataclass
class Change:
    """The difference of two groups of tensors, as sums of squares."""

    size: float = 0.0  # of the first
    raw: float = 0.0  # of the difference as the files are
    after: float = 0.0  # of the difference in one gauge

    def add(self, size: float, raw: float, after: float) -> None:
        """Add a tensor."""
        self.size += size
        self.raw += raw
        self.after += after

    @property
    def relative(self) -> float:
        """The distance in a common gauge, relative to the first."""
        return (self.after / self.size) ** 0.5 if self.size else float(self.after > 0)

    @property
    def relative_raw(self) -> float:
        """The distance of the files as stored."""
        return (self.raw / self.size) ** 0.5 if self.size else float(self.raw > 0)

    def document(self) -> dict[str, float]:
        """As plain data, for JSON."""
        return {"distance": self.relative, "raw": self.relative_raw}


@dataclass(frozen=True)
class Spot:
    """A head, a unit or a token, and how much it changed."""

    part: str
    number: int  # heads and units from 1, tokens by their ids
    distance: float
    text: str = ""

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return vars(self)


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
        if far or _explained(_moved(Alignment(one, two, 1, progress), progress, listed=False), far):
            found = _moved(Steady(one, two, 1, progress), progress)
        if found is not None and _explained(found, far):
            return found
    stored = ((part, two.part(part)) for part in one.parts)
    return _compared(Changes(False), one, two, stored, progress)


def _moved(alignment: Alignment, progress: Progress, *, listed: bool = True) -> Changes | None:
    """What changed, with the second in the gauge of the first; None if that is farther away."""
    one, two, parts = alignment.one, alignment.two, alignment.parts()
    try:
        return _compared(Changes(True), one, two, parts, progress, listed=listed)
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
            numbers = inner(value, value), apart(value, raw[name]), apart(value, after[name])
            found.total.add(*numbers)
            found.grid.setdefault((part, piece_of(part, name)), Change()).add(*numbers)
            if not is_matrix(part, name):
                other = found.others.setdefault((part, kind_of(part, name)), Change())
                other.add(*numbers)
                if found.moved and name == "b_U":  # with shifts of the table, and their rounding
                    table = before.get("W_U", one.part("embed").get("tokens", value))
                    other.size += inner(table, table)
        if listed:
            _list(found, one.spec.at(part), part, before, after)
    return found


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


def _list(found: Changes, spec: Transformer, part: str, before: Tensors, after: Tensors) -> None:
    """Add the updates of a part, and its heads, units and tokens that moved most."""
    units: tuple[Array, Array] | None = None
    roundoff = found.roundoff
    for name, value in before.items():
        difference = after[name] - value
        if is_matrix(part, name):
            found.updates.append(matrix_update(part, name, value, difference, roundoff))
        if name in ("W_up", "W_gate", "W_down"):
            axis = -2 if name == "W_down" else -1
            squares = (value**2).sum(axis), (difference**2).sum(axis)
            units = squares if units is None else (units[0] + squares[0], units[1] + squares[1])
        if name == "tokens":
            moved = _relative((value**2).sum(0), (difference**2).sum(0))
            found.tokens += _most(part, moved, 0, roundoff)
    if units is not None:
        found.units += _units(part, _relative(*units), roundoff)
    if by := head_distances(spec, before, after):
        found.heads += _most(part, np.max([*by.values()], axis=0), 1, roundoff, by)


def _relative(sizes: Array, squares: Array) -> Array:
    return np.asarray(np.sqrt(squares / np.where(sizes > 0, sizes, 1)))


def _most(
    part: str, distances: Array, first: int, roundoff: float, by: dict[str, Array] | None = None
) -> list[Spot]:
    """The members of a part that changed most, beyond rounding; `by` names the products."""
    order = [int(n) for n in np.argsort(-distances)[:MOST] if distances[n] > _ROUNDING * roundoff]
    words = {
        n: ", ".join(f"{name} {one[n]:.2g}" for name, one in (by or {}).items()) for n in order
    }
    return [Spot(part, n + first, float(distances[n]), words[n]) for n in order]


def _units(part: str, distances: Array, roundoff: float) -> list[Spot]:
    """The units of a layer that moved most; of experts, with the number of the expert."""
    if distances.ndim == 1:
        return _most(part, distances, 1, roundoff)
    every = [
        replace(spot, text=f"expert {expert}")
        for expert, moved in enumerate(distances.reshape(-1, distances.shape[-1]), 1)
        for spot in _most(part, moved, 1, roundoff)
    ]
    return sorted(every, key=lambda spot: -spot.distance)[:MOST]


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
