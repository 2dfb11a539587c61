"""What changed between two checkpoints? Both in one gauge, so that only changes of function count.

The second is brought into the gauge of the first. Then differences are measured: of the whole
model, by layer, piece, head, unit and token; how much of the raw difference was gauge; and how many
directions each update has, which tells a full fine-tune from one of low rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segre.checkpoint.align import Alignment, FartherError
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.one_form import in_one_form
from segre.checkpoint.outputs import outputs, random_tokens
from segre.checkpoint.overflow import within_float64
from segre.checkpoint.sizes import apart, inner
from segre.fields.interface import Array
from segre.finding import Status, Unbounded
from segre.models import Source
from segre.models.relevance import IRRELEVANT
from segre.shown import Tabular
from segre.transformer.forward import Tokens
from segre.transformer.tensors import of_mlp

PIECES = ("QK", "VO", "MLP", "norms", "tables")
MOST = 20  # heads, units and tokens that are listed
_NOISE = 4.0  # times the size that rounding gives to a singular value


@dataclass
class Change:
    """How far two groups of tensors are apart: sums of squares."""

    size: float = 0.0  # of the first
    raw: float = 0.0  # of the difference as the files are
    after: float = 0.0  # of the difference in one gauge

    def add(self, size: float, raw: float, after: float) -> None:
        """Count more."""
        self.size += size
        self.raw += raw
        self.after += after

    @property
    def relative(self) -> float:
        """The distance in one gauge, relative to the first."""
        return (self.after / self.size) ** 0.5 if self.size else float(self.after > 0)

    @property
    def relative_raw(self) -> float:
        """The distance of the files as they are."""
        return (self.raw / self.size) ** 0.5 if self.size else float(self.raw > 0)

    def document(self) -> dict[str, float]:
        """As plain data, for JSON."""
        return {"distance": self.relative, "raw": self.relative_raw}


@dataclass(frozen=True)
class Update:
    """The difference of one matrix: how many directions it has beyond rounding."""

    part: str
    name: str
    distance: float
    rank: int
    full: int  # the largest rank it could have
    stable_rank: float  # squared Frobenius norm over squared spectral norm

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return vars(self)


@dataclass(frozen=True)
class Spot:
    """A head, a unit or a token, and how far it moved."""

    what: str
    part: str
    number: int
    distance: float
    text: str = ""

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return vars(self)


@dataclass(frozen=True)
class Diff(Unbounded, Tabular):
    """What changed from one checkpoint to another."""

    one: str
    two: str
    config: dict[str, tuple[Any, Any]]  # keys that differ and change the function
    ignored: dict[str, tuple[Any, Any]]  # keys that differ and do not
    total: Change
    grid: dict[tuple[str, str], Change]  # by part and piece
    updates: tuple[Update, ...]
    heads: tuple[Spot, ...]
    units: tuple[Spot, ...]
    tokens: tuple[Spot, ...]
    outputs: dict[str, float] = field(default_factory=dict)
    compared: int | None = None  # the first so many tokens; None: all

    @property
    def value(self) -> float:
        """The relative distance of the whole model, in one gauge."""
        return self.total.relative

    @property
    def status(self) -> Status:
        """Distances are measured."""
        return "measured"

    @property
    def how(self) -> str:
        """How they are measured."""
        return "both in one gauge; distances relative to the first"

    @property
    def gauge(self) -> float:
        """The share of the raw squared difference that was gauge."""
        return max(0.0, 1 - self.total.after / self.total.raw) if self.total.raw else 0.0

    @property
    def by_piece(self) -> dict[str, Change]:
        """Sums over the layers."""
        return self._summed(1)

    @property
    def by_part(self) -> dict[str, Change]:
        """Sums over the pieces."""
        return self._summed(0)

    def _summed(self, axis: int) -> dict[str, Change]:
        out: dict[str, Change] = {}
        for key, change in self.grid.items():
            out.setdefault(key[axis], Change()).add(change.size, change.raw, change.after)
        return out

    @property
    def low_rank(self) -> int | None:
        """The largest rank of an update, if all that changed are updates of low rank."""
        moved = [one for one in self.updates if one.rank]
        rest = [
            c for (_, piece), c in self.grid.items() if piece in ("norms", "tables") and c.after
        ]
        if not moved or any(4 * one.rank > one.full for one in moved):
            return None
        return None if any(c.relative > 1e-6 for c in rest) else max(one.rank for one in moved)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "one": self.one,
            "two": self.two,
            "config": {key: list(pair) for key, pair in self.config.items()},
            "ignored": {key: list(pair) for key, pair in self.ignored.items()},
            "whole": self.total.document(),
            "gauge": self.gauge,
            "low_rank": self.low_rank,
            "pieces": {name: one.document() for name, one in self.by_piece.items()},
            "layers": {name: one.document() for name, one in self.by_part.items()},
            "grid": [
                {"part": part, "piece": piece, **one.document()}
                for (part, piece), one in self.grid.items()
            ],
            "updates": [one.document() for one in self.updates],
            "heads": [one.document() for one in self.heads],
            "units": [one.document() for one in self.units],
            "tokens": [one.document() for one in self.tokens],
            "outputs": self.outputs,
            "compared": self.compared,
        }


@within_float64(2)
def diff(
    one: Source,
    two: Source,
    *,
    tokens: Tokens | None = None,
    words: Mapping[int, str] | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Diff:
    """What changed from the first checkpoint to the second.

    `tokens` are inputs on which outputs are compared, random ones unless they are given; `words` are
    the texts of tokens, where they are known.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     found = diff(model, move(model, f"{folder}/moved").directory)
    >>> found.value < 1e-6, round(found.gauge, 6)
    (True, 1.0)
    """
    with Model.open(one) as first, Model.open(two) as second:
        a, b, compared = in_one_form(first, second)
        changed, ignored = config_changes(first.store.config, second.store.config)
        gathered = _Gathered(a)
        alignment = Alignment(a, b, progress=progress)
        try:
            for done, (part, tensors) in enumerate(alignment.parts()):
                progress("differences", done, len(a.parts))
                gathered.add(part, b, tensors)
        except FartherError:
            gathered = _Gathered(a)
            for part, tensors in alignment.unchanged():
                gathered.add(part, b, tensors)
        return Diff(
            first.name,
            second.name,
            changed,
            ignored,
            gathered.total,
            gathered.grid,
            tuple(sorted(gathered.updates, key=lambda update: -update.distance)),
            gathered.most("head"),
            gathered.most("unit"),
            gathered.most("token", words),
            _outputs_apart(a, b, tokens or random_tokens(a.spec, seed), progress),
            compared,
        )


class _Gathered:
    """What has been found so far, part by part."""

    def __init__(self, one: Model) -> None:
        self.one = one
        self.unit = one.roundoff()
        self.total = Change()
        self.grid: dict[tuple[str, str], Change] = {}
        self.updates: list[Update] = []
        self.spots: dict[str, list[Spot]] = {"head": [], "unit": [], "token": []}

    def add(self, part: str, two: Model, aligned: Tensors) -> None:
        """Count the tensors of a part of the second, in the gauge of the first."""
        heads, units = np.zeros((2, 0)), np.zeros((2, 0))
        for name, after in aligned.items():
            before, raw = (model.part(part, [name])[name] for model in (self.one, two))
            size = inner(before, before)
            numbers = (size, apart(before, raw), apart(before, after))
            self.total.add(*numbers)
            piece = piece_of(part, name)
            self.grid.setdefault((part, piece), Change()).add(*numbers)
            difference = after - before
            if name.startswith("W_") and part not in ("embed", "head"):
                self.updates.append(self._update(part, name, before, difference))
            if name in ("W_Q", "W_O"):
                heads = _joined(heads, _by_head(before), _by_head(difference))
            if name in ("W_up", "W_gate", "W_down") and before.ndim == 2:
                axis = 0 if name == "W_down" else 1
                units = _joined(units, (before**2).sum(axis), (difference**2).sum(axis))
            if name == "tokens":
                columns = (before**2).sum(axis=0), (difference**2).sum(axis=0)
                self._spots("token", part, *columns)
        self._spots("head", part, *heads)
        self._spots("unit", part, *units)

    def _spots(self, what: str, part: str, sizes: Array, moved: Array) -> None:
        if not len(sizes):
            return
        relative = np.sqrt(moved / np.where(sizes > 0, sizes, 1))
        top = np.argsort(-relative)[:MOST]
        self.spots[what] += [
            Spot(what, part, int(n) + (what != "token"), float(relative[n]))
            for n in top
            if relative[n] > 0
        ]

    def most(self, what: str, words: Mapping[int, str] | None = None) -> tuple[Spot, ...]:
        """Those that moved most."""
        found = sorted(self.spots[what], key=lambda spot: -spot.distance)[:MOST]
        if words is None:
            return tuple(found)
        return tuple(
            Spot(spot.what, spot.part, spot.number, spot.distance, words.get(spot.number, ""))
            for spot in found
        )

    def _update(self, part: str, name: str, before: Array, difference: Array) -> Update:
        matrix = as_matrix(name, difference)
        values = np.linalg.svd(matrix, compute_uv=False)
        rms = (inner(before, before) / before.size) ** 0.5
        noise = _NOISE * self.unit * rms * sum(n**0.5 for n in matrix.shape)
        square, top = float((values**2).sum()), float(values[0])
        size = inner(before, before)
        return Update(
            part,
            name,
            (square / size) ** 0.5 if size else 0.0,
            int((values > max(noise, 1e-12 * top)).sum()) if top else 0,
            min(matrix.shape),
            square / top**2 if top else 0.0,
        )


def _joined(sums: Array, sizes: Array, moved: Array) -> Array:
    new = np.stack([sizes.reshape(-1), moved.reshape(-1)])
    return new if not sums.shape[1] else sums + new


def _by_head(tensor: Array) -> Array:
    """Sums of squares of every query head: (kv, G, rows, columns) or (heads, 1, ...)."""
    return np.asarray((tensor**2).sum(axis=(-2, -1)).reshape(-1))


def as_matrix(name: str, tensor: Array) -> Array:
    """A tensor as the matrix that a file has: heads under each other, or beside each other."""
    if tensor.ndim == 2:
        return tensor
    if name == "W_O":
        return np.moveaxis(tensor, -2, 0).reshape(tensor.shape[-2], -1)
    return tensor.reshape(-1, tensor.shape[-1])


def piece_of(part: str, name: str) -> str:
    """The piece that a tensor belongs to."""
    if ".gain" in name or ".bias" in name:
        return "norms"
    if part in ("embed", "head"):
        return "tables"
    if of_mlp(name):
        return "MLP"
    letter = name.partition("_")[2][:1]
    return "VO" if letter in ("V", "O", "G") else "QK"


def config_changes(
    one: Mapping[str, Any], two: Mapping[str, Any]
) -> tuple[dict[str, tuple[Any, Any]], dict[str, tuple[Any, Any]]]:
    """Keys in which two configs differ: those that may change the function, and the others."""
    changed: dict[str, tuple[Any, Any]] = {}
    ignored: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*one, *two}):
        if one.get(key) != two.get(key):
            pair = (one.get(key), two.get(key))
            (ignored if key in IRRELEVANT else changed)[key] = pair
    return changed, ignored


def _outputs_apart(one: Model, two: Model, tokens: Tokens, progress: Progress) -> dict[str, float]:
    ours, theirs = (outputs(model, tokens, progress) for model in (one, two))
    return {
        "largest": float(np.abs(ours - theirs).max() / np.abs(ours).max()),
        "mean": float(np.linalg.norm(ours - theirs) / np.linalg.norm(ours)),
    }
