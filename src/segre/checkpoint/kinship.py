"""Do two checkpoints have a common origin? Found from the nearest relatives of heads and units.

In a model that came from another, every head and every hidden unit has a twin there, nearer than
any head or unit of its own layer. In independently trained models nothing makes a unit more similar
to one of the other model than to one of its own: if units of both could be exchanged, half of the
nearest relatives would be in the other model; training makes it fewer, since units of one model
share its basis and its tables. What is compared does not depend on free choices: heads by the
products that they compute, units by what they read and write, in one basis of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import head_likeness
from segre.checkpoint.match import match_latents
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.reduce import reduced
from segre.checkpoint.structure import into_stream
from segre.checkpoint.units import signed, unit_sizes
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

# Measured by `python -m bench.lineage`: pairs of models trained independently on the same data.
NULL_PAIRS, NULL_MODELS, NULL_MOST = 270, 60, 0.554
NULL_ERROR = 3 / NULL_PAIRS  # below this: 95 % confidence, if pairs are independent and none fails
_NULL = {"pairs": NULL_PAIRS, "models": NULL_MODELS, "mean": 0.135, "most": NULL_MOST, "related": 0}
THRESHOLD = 0.65  # of the nearest relatives in the other model, for a common origin
SPREADS = 3.0  # and so many standard deviations above what exchangeable units would give
HALF = 0.5  # what exchangeable units give
ASKED = 256  # units of a layer of either model whose relatives are looked for, if there are many
MANY = 2048
DRAWS = 200
SILENT = 1e-4  # of the median size


@dataclass(frozen=True)
class Kinship:
    """How many nearest relatives are in the other model, compared with chance."""

    heads: float | None  # fraction of heads whose nearest relative is in the other model
    units: float | None
    members: int  # heads and units that were asked
    distance: float  # mean distance to the nearest one of the other model, all of length 1
    chance: float  # the fraction if heads and units of both models could be exchanged ...
    spread: float  # ... and its standard deviation
    silent: tuple[int, int] = (0, 0)  # heads and units of either that write nothing
    growth: float = 0.0  # of the sum of squares of balanced matrices, from one to two, relative

    @property
    def share(self) -> float:
        """The fraction of nearest relatives in the other model: of heads and units, the mean."""
        known = [x for x in (self.heads, self.units) if x is not None]
        return float(np.mean(known)) if known else 0.0

    def in_words(self, digits: int = 0) -> str:
        """Who has the nearest relative in the other model, in percent with so many decimals."""
        known = (("heads", self.heads), ("units", self.units))
        shares = [f"{x:.{digits}%} of the {kind}" for kind, x in known if x is not None]
        who = " and ".join(shares) or "no heads or units"
        return f"{who} have their nearest relative in the other model"

    @property
    def threshold(self) -> float:
        """The share from which on a common origin is taken as established."""
        return max(THRESHOLD, self.chance + SPREADS * self.spread)

    @property
    def related(self) -> bool | None:
        """Whether they have a common origin; None if there are too few members to decide."""
        if self.members and self.share >= self.threshold:
            return True
        near = max(HALF, self.chance + self.spread)
        return False if self.threshold < 1 and self.share < near else None

    @property
    def error(self) -> float:
        """The rate of false positives is below this: 95 % confidence, if pairs are independent."""
        return NULL_ERROR

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "share": self.share,
            "heads": self.heads,
            "units": self.units,
            "members": self.members,
            "threshold": self.threshold,
            "distance": self.distance,
            "silent": list(self.silent),
            "growth": self.growth,
            "chance": {"mean": self.chance, "spread": self.spread},
            "trained_apart": _NULL,
            "false_positive_rate_below": self.error,
        }


def kinship(one: Model, two: Model, progress: Progress = no_progress) -> Kinship:
    """Look for the nearest relatives of heads and units; numbers of both may differ."""
    counts: dict[str, list[_Count]] = {"heads": [], "units": []}
    rng = np.random.default_rng(0)
    silent, squares = np.zeros(2, int), np.zeros(2)
    for done, (part, a, b) in enumerate(_in_one_basis(one, two)):
        progress("relatives", done, len(one.parts))
        spec = one.spec.at(part)
        squares += [_squares(w) for w in (a, b)]
        alive = [_writing(_head_sizes(w)) for w in (a, b)]
        silent += [int((~x).sum()) for x in alive]
        counts["heads"].append(_count(*_heads(spec, a, b, alive), rng))
        if "W_up" in a and "W_up" in b:
            alive = [_writing(unit_sizes(w).ravel()) for w in (a, b)]
            silent += [int((~x).sum()) for x in alive]
            counts["units"].append(_count(*_units(spec, a, b, alive, rng), rng))
    kinds = {kind: sum(found[1:], found[0]) for kind, found in counts.items() if found}
    known = {kind: x for kind, x in kinds.items() if x.asked}
    shares = {kind: x.crossing / x.asked for kind, x in known.items()}
    draws = np.mean([x.draws / x.asked for x in known.values()], axis=0) if known else np.ones(1)
    return Kinship(
        shares.get("heads"),
        shares.get("units"),
        sum(x.asked for x in known.values()),
        float(np.mean([x.distance / x.asked for x in known.values()])) if known else 0.0,
        float(draws.mean()),
        float(draws.std()),
        (int(silent[0]), int(silent[1])),
        float(squares[1] / squares[0] - 1) if squares[0] else 0.0,
    )


def _squares(w: Tensors) -> float:
    """The sum of squares of all matrices, whose scales are balanced."""
    return float(
        sum(np.vdot(x, x) for name, x in w.items() if name[1:2] == "_" and name[0] in "WS")
    )


def _writing(sizes: Array) -> Array:
    """Which heads or units write anything; rounding leaves a little of what was zero."""
    return np.asarray(sizes > SILENT * np.median(sizes))


def _head_sizes(w: Tensors) -> Array:
    """Norms of values through outputs, head by head."""
    V = w["W_V"][:, 0]
    gram = V @ V.swapaxes(1, 2)
    squares = np.einsum("hgdv,hgdw,hvw->hg", w["W_O"], w["W_O"], gram, optimize=True)
    return np.asarray(np.sqrt(squares.clip(0)).ravel())


def _in_one_basis(one: Model, two: Model) -> Iterator[tuple[str, Tensors, Tensors]]:
    """The layers of both, reduced; the second in the basis of the stream of the first."""
    for a, b in zip(reduced(one), reduced(two), strict=True):
        w = b.tensors
        if a.part == "embed":
            move = into_stream(one, two, a.tensors, w)
        if a.part in ("embed", "head"):
            continue
        move(a.part, w)
        match_latents(one.spec, a.part, a.tensors, w)
        yield a.part, a.tensors, w


# --- likeness ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Likeness:
    """Similarity of some members of one model to all members of both models."""

    own: Array  # (asked, all of this model); of itself, minus infinity
    other: Array  # (asked, all of the other model)


def _heads(
    spec: Transformer, a: Tensors, b: Tensors, alive: list[Array]
) -> tuple[_Likeness, _Likeness]:
    def flat(i: int, j: int) -> Array:
        found = head_likeness(spec, (a, b)[i], (a, b)[j]) / 2
        kv, other, group, theirs = found.shape
        square = found.transpose(0, 2, 1, 3).reshape(kv * group, other * theirs)
        return np.asarray(square[np.ix_(alive[i], alive[j])])

    across = flat(0, 1)
    return (
        _Likeness(_apart_from_itself(flat(0, 0)), across),
        _Likeness(_apart_from_itself(flat(1, 1)), across.T),
    )


def _apart_from_itself(square: Array) -> Array:
    np.fill_diagonal(square, -np.inf)
    return square


def _units(
    spec: Transformer, a: Tensors, b: Tensors, alive: list[Array], rng: np.random.Generator
) -> tuple[_Likeness, _Likeness]:
    """Units by what they read and write; those of all experts together."""
    both = [
        {name: rows[writing] for name, rows in _unit_rows(w).items()}
        for w, writing in zip((a, b), alive, strict=True)
    ]
    out = []
    for mine, other in (both, both[::-1]):
        n = len(mine["up"])
        asked = np.arange(n) if n <= MANY else np.sort(rng.choice(n, ASKED, replace=False))
        some = {name: rows[asked] for name, rows in mine.items()}
        own = _alike(spec, some, mine)
        own[np.arange(len(asked)), asked] = -np.inf
        out.append(_Likeness(own, _alike(spec, some, other)))
    return out[0], out[1]


def _alike(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """Between -1 and 1; scales do not matter, and signs that are free cancel."""
    up, down = (one[name] @ two[name].T for name in ("up", "down"))
    if "gate" not in one:
        return np.asarray((up + down) / 2)
    gate = one["gate"] @ two["gate"].T
    return np.asarray((up * down + gate) / 2 if signed(spec) else (up + down + gate) / 3)


def _unit_rows(w: Tensors) -> Tensors:
    """What every unit reads and writes, as rows of length 1."""
    d = w["W_up"].shape[-1]
    rows = {name: w[f"W_{name}"].reshape(-1, d) for name in ("gate", "up") if f"W_{name}" in w}
    rows["down"] = np.moveaxis(w["W_down"], -2, -1).reshape(-1, d)
    dtype = np.float32 if len(rows["up"]) > MANY else np.float64
    return {name: _unit_length(x).astype(dtype) for name, x in rows.items()}


def _unit_length(rows: Array) -> Array:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(size > 0, size, 1))


# --- counts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Count:
    """Members that were asked, and those whose nearest relative is in the other model."""

    asked: int
    crossing: int
    distance: float  # summed
    draws: Array  # crossing, if members of both models are exchanged at random

    def __add__(self, other: _Count) -> _Count:
        return _Count(
            self.asked + other.asked,
            self.crossing + other.crossing,
            self.distance + other.distance,
            self.draws + other.draws,
        )


def _count(one: _Likeness, two: _Likeness, rng: np.random.Generator) -> _Count:
    """Those that were asked; if one has fewer (pruned), only that one is asked."""
    sizes = one.own.shape[1], two.own.shape[1]
    if min(sizes) == 0:
        return _Count(0, 0, 0.0, np.zeros(DRAWS))
    asked = [x for x, own, other in ((one, *sizes), (two, *sizes[::-1])) if own <= other]
    nearest, distance, crossing = [], 0.0, 0
    for x in asked:
        own, other = x.own.max(axis=1), x.other.max(axis=1)
        crossing += int((other > own).sum())
        distance += float(np.sqrt((2 - 2 * other).clip(0)).sum())
        first = np.concatenate([x.own, x.other], axis=1).argmax(axis=1)
        nearest.append((x.own.argmin(axis=1), first))  # itself, and its nearest
    number = sum(len(who) for who, _ in nearest)
    draws = np.zeros(DRAWS)
    for n, (who, first) in enumerate(nearest):
        size = asked[n].own.shape[1]
        labels = np.arange(sum(sizes)) < size
        for draw in range(DRAWS):
            mixed = rng.permutation(labels)
            draws[draw] += (mixed[who] != mixed[first]).sum()
    return _Count(number, crossing, distance, draws)
