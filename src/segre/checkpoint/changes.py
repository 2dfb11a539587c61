"""Where two checkpoints differ: by layer, piece, head, unit and token, in a common gauge.

Files that were never moved already share a gauge and are compared as stored. If any part is far
away, the second is first moved into the gauge of the first, so that only changes of the function
count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, FartherError
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.pairs import Finder, aligned_pairs
from segre.checkpoint.sizes import apart, inner
from segre.checkpoint.updates import Update, at_best_scales, head_updates, matrix_update
from segre.fields.interface import Array
from segre.geometry.gauge.units import SCALES
from segre.transformer.tensors import of_mlp

PIECES = ("QK", "VO", "MLP", "norms", "tables")
MOST = 20  # heads, units and tokens that are listed
_ROUNDING = 8.0  # times the unit roundoff: what moves less is not listed
_MOVED = 4.0  # times the roundoff: what was moved was rounded in another basis
_FAR = 0.5  # relative distance of a part that says that it may have been moved


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
    total: Change = field(default_factory=Change)
    grid: dict[tuple[str, str], Change] = field(default_factory=dict)  # by part and piece
    updates: list[Update] = field(default_factory=list)
    heads: list[Spot] = field(default_factory=list)
    units: list[Spot] = field(default_factory=list)
    tokens: list[Spot] = field(default_factory=list)

    def summed(self, axis: int) -> dict[str, Change]:
        """By part (0) or by piece (1)."""
        out: dict[str, Change] = {}
        for key, change in self.grid.items():
            out.setdefault(key[axis], Change()).add(change.size, change.raw, change.after)
        return out


def changes(one: Model, two: Model, progress: Progress = no_progress) -> Changes:
    """What changed from the first model to the second; both in one form."""
    roundoff = max(one.roundoff(), two.roundoff())
    found = Changes(_far(one, two))

    def reduced(part: str, before: Tensors, after: Tensors) -> None:
        if found.moved:
            rounding = _MOVED * roundoff
            power = dict(SCALES.get(one.spec.mlp, ())).get("up")
            if power is not None:
                after = at_best_scales(before, after, power, rounding)
            _list(found, part, before, after, rounding)

    rounds = int(not _same_tables(one, two))
    alignment = Alignment(one, two, rounds, progress, see=reduced)
    try:
        for part, aligned in alignment.parts():
            _count(found, part, one, two, aligned)
    except FartherError:
        found = Changes(False)
        for part, unchanged in alignment.unchanged():
            _count(found, part, one, two, unchanged)
    if not found.moved:
        for done, part in enumerate(one.parts):
            progress("updates", done, len(one.parts))
            _list(found, part, one.part(part), two.part(part), roundoff)
    return found


def _count(found: Changes, part: str, one: Model, two: Model, aligned: Tensors) -> None:
    """Add up squares of a part."""
    for name, after in aligned.items():
        before, raw = (model.part(part, [name])[name] for model in (one, two))
        numbers = inner(before, before), apart(before, raw), apart(before, after)
        found.total.add(*numbers)
        found.grid.setdefault((part, piece_of(part, name)), Change()).add(*numbers)


def _far(one: Model, two: Model) -> bool:
    """Whether any tensor is so far from its counterpart that the gauges may differ."""
    for part in one.parts:
        for name, before in one.part(part).items():
            raw = two.part(part, [name])[name]
            if raw.ndim > 1 and apart(before, raw) > _FAR**2 * inner(before, before):
                return True
    return False


def _same_tables(one: Model, two: Model) -> bool:
    """Whether the token tables are equal in some basis, which is then used."""
    a, b = next(aligned_pairs(one, two, Finder()))
    roundoff = max(one.roundoff(), two.roundoff())
    return all(
        apart(value, b.tensors[name]) <= (64 * roundoff) ** 2 * inner(value, value)
        for name, value in a.tensors.items()
    )


def _list(found: Changes, part: str, before: Tensors, after: Tensors, roundoff: float) -> None:
    """Add the updates of a part, and its heads, units and tokens that moved most."""
    units: tuple[Array, Array] | None = None
    for name, value in before.items():
        difference = after[name] - value
        if name.startswith("W_") and part not in ("embed", "head"):
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
    products = head_updates(part, before, after, roundoff)
    if products:
        found.updates += [one.update for one in products.values()]
        largest = np.max([one.distances for one in products.values()], axis=0)
        by = {name: one.distances for name, one in products.items()}
        found.heads += _most(part, largest, 1, roundoff, by)


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
