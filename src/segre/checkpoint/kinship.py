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
from math import ceil
from typing import Any

import numpy as np

from segre.checkpoint.elements import of_length_1
from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import head_likeness
from segre.checkpoint.match import match_latents
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.structure import layers_in_one_stream
from segre.checkpoint.units import signed, unit_sizes
from segre.fields.interface import Array
from segre.json_data import stated
from segre.transformer.spec import Transformer

# Measured by `python -m bench.lineage`: pairs of models trained independently on the same data.
NULL_PAIRS, NULL_MODELS, NULL_MOST = 270, 60, 0.554
NULL_ERROR = 3 / NULL_PAIRS  # below this: 95 % confidence, if pairs are independent and none fails
_NULL = {"pairs": NULL_PAIRS, "models": NULL_MODELS, "mean": 0.135, "most": NULL_MOST, "related": 0}
TRAINED_APART = (
    f"none of {NULL_PAIRS} pairs of {NULL_MODELS} independently trained models had more than "
    f"{NULL_MOST:.1%}: false positives below {ceil(1000 * NULL_ERROR) / 10}% "
    "(95% confidence, assuming independent pairs)"
)
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
        return stated(
            self,
            "share heads units members threshold distance silent growth",
            chance={"mean": self.chance, "spread": self.spread},
            trained_apart=_NULL,
            false_positive_rate_below=self.error,
        )


def kinship(one: Model, two: Model, progress: Progress = no_progress) -> Kinship:
    """Look for the nearest relatives of heads and units; numbers of both may differ."""
    counts: dict[str, list[Array]] = {"heads": [], "units": []}
    rng = np.random.default_rng(0)
    silent, squares = np.zeros(2, int), np.zeros(2)
    kinds = (("heads", "W_O", _head_sizes, _heads), ("units", "W_up", unit_sizes, _units))
    for done, (part, *both) in enumerate(_in_one_basis(one, two)):
        progress("relatives", done, len(one.parts))
        squares += [_squares(w) for w in both]
        for kind, name, sizes, likeness in kinds:
            if all(name in w for w in both):
                alive = [_writing(sizes(w).ravel()) for w in both]
                silent += [int((~x).sum()) for x in alive]
                counts[kind].append(_count(likeness(one.spec.at(part), both, alive, rng), rng))
    totals = {kind: sum(found, np.zeros(3 + DRAWS)) for kind, found in counts.items()}
    shares = {kind: x / x[0] for kind, x in totals.items() if x[0]}
    means = np.mean([*shares.values()], axis=0) if shares else np.array([0.0, 0.0, 0.0, 1.0])
    heads, units = (float(shares[kind][1]) if kind in shares else None for kind in totals)
    return Kinship(
        heads,
        units,
        int(sum(x[0] for x in totals.values())),
        float(means[2]),
        float(means[3:].mean()),
        float(means[3:].std()),
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
    return np.asarray(np.sqrt(squares.clip(0)))


def _in_one_basis(one: Model, two: Model) -> Iterator[tuple[str, Tensors, Tensors]]:
    """The layers of both, reduced; the second in the basis of the stream of the first."""
    for a, b in zip(*layers_in_one_stream(one, two), strict=True):
        match_latents(one.spec, a.part, a.tensors, b.tensors)
        yield a.part, a.tensors, b.tensors


# --- likeness ---------------------------------------------------------------------------------


def _heads(
    spec: Transformer, both: list[Tensors], alive: list[Array], _rng: np.random.Generator
) -> list[tuple[Array, Array]]:
    """Of the heads of either model: likeness to those of their own model, and of the other."""

    def flat(i: int, j: int) -> Array:
        found = head_likeness(spec, both[i], both[j]) / 2
        kv, other, group, theirs = found.shape
        square = found.transpose(0, 2, 1, 3).reshape(kv * group, other * theirs)
        return np.asarray(square[np.ix_(alive[i], alive[j])])

    across, *own = flat(0, 1), flat(0, 0), flat(1, 1)
    for square in own:
        np.fill_diagonal(square, -np.inf)
    return [(own[0], across), (own[1], across.T)]


def _units(
    spec: Transformer, both: list[Tensors], alive: list[Array], rng: np.random.Generator
) -> list[tuple[Array, Array]]:
    """The same of units, by what they read and write; those of all experts together."""
    rows = [
        {name: x[writing] for name, x in _unit_rows(w).items()}
        for w, writing in zip(both, alive, strict=True)
    ]
    out = []
    for mine, other in (rows, rows[::-1]):
        n = len(mine["up"])
        asked = np.arange(n) if n <= MANY else np.sort(rng.choice(n, ASKED, replace=False))
        some = {name: x[asked] for name, x in mine.items()}
        own = _alike(spec, some, mine)
        own[np.arange(len(asked)), asked] = -np.inf
        out.append((own, _alike(spec, some, other)))
    return out


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
    return {name: of_length_1(x).astype(dtype) for name, x in rows.items()}


# --- counts -----------------------------------------------------------------------------------


def _count(likeness: list[tuple[Array, Array]], rng: np.random.Generator) -> Array:
    """How many were asked, how many of them have their nearest relative in the other model, the sum
    of the distances to it, and the second number again if members of both are exchanged at random.

    If one model has fewer (pruned), only its members are asked.
    """
    sizes = [own.shape[1] for own, _ in likeness]
    out = np.zeros(3 + DRAWS)
    if min(sizes) == 0:
        return out
    asked = [(own, other) for own, other in likeness if own.shape[1] <= other.shape[1]]
    for own, other in asked:
        nearest = other.max(axis=1)
        crossing = (nearest > own.max(axis=1)).sum()
        out[:3] += len(own), crossing, np.sqrt((2 - 2 * nearest).clip(0)).sum()
    for own, other in asked:
        itself, first = own.argmin(axis=1), np.hstack([own, other]).argmax(axis=1)
        labels = np.arange(sum(sizes)) < own.shape[1]
        for draw in range(DRAWS):
            mixed = rng.permutation(labels)
            out[3 + draw] += (mixed[itself] != mixed[first]).sum()
    return out
