"""Did one checkpoint come from another, and what was done to it? Evidence, not accusation.

The first question is whether they have a common origin (`kinship`), with an error rate calibrated
on independently trained models. The second is what kind of change leads from one to the other:
none, a change of basis, rounding, noise, training, pruning or quantisation (`change`, `grids`), or
other layers, tokens or widths (`structure`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np

from segre.checkpoint.comparison import Comparison, Judged
from segre.checkpoint.function import (
    differing_keys,
    require_same_architecture,
    require_same_scale,
)
from segre.checkpoint.grids import Grid, grid_of
from segre.checkpoint.kinship import TRAINED_APART, Kinship, kinship
from segre.checkpoint.model import Model, Progress, no_progress, unit_roundoff
from segre.checkpoint.noise import Change, change
from segre.checkpoint.one_form import in_one_form
from segre.checkpoint.overflow import on_models
from segre.checkpoint.rounding import differences
from segre.checkpoint.same import same
from segre.checkpoint.structure import rebuilt
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.files import shown
from segre.finding import Status, Unbounded
from segre.json_data import stated
from segre.models import Source
from segre.shown import Tabular

Kind = Literal[
    "identical",
    "same function, moved",
    "same up to rounding, moved",
    "rounded",
    "noise added",
    "fine-tuned",
    "common origin",
    "pruned",
    "quantised",
    "width pruned",
    "layers dropped",
    "layers duplicated",
    "layers reordered",
    "tokens permuted",
    "unrelated",
    "undecided",
]
# may differ: what has fewer may have lost some
PRUNABLE = {"heads", "kv", "ff", "eff", "d", "head", "dv", "layers"}
EXACT = 2.0**-24  # rounding errors of types that are not called rounded
BETWEEN = 0.1  # the cosine seen from a checkpoint between two others is smaller by this
CLOSE = 0.05  # of the distance of two checkpoints: a third so near to one of them is a copy of it
NEAR, UNITS = 2e-3, 32  # distance of relatives, or so many rounding errors: one function, perhaps
SPACING = 1.0  # rounding changes a number by at most this, in spacings of the type
ZEROED = 0.01  # numbers that became zero, for pruning
LOST = -0.4  # growth of squares by the square of the change: 1 for noise, -1 for numbers removed,
SURE = 10.0  # if the change is so many times larger than what chance does to that


@dataclass(frozen=True)
class Relation(Judged):
    """How two checkpoints are related, and the evidence."""

    one: str
    two: str
    verdict: Kind
    reason: str
    kinship: Kinship | None = None
    change: Change | None = None

    @property
    def related(self) -> bool | None:
        """Whether they have a common origin; None if undecided."""
        if self.verdict == "undecided":
            return None
        return self.verdict != "unrelated"

    @property
    def distance(self) -> float:
        """Mean distance of nearest relatives: 0 for copies, about 1.3 for unrelated models."""
        return 0.0 if self.kinship is None else self.kinship.distance

    @property
    def said(self) -> str:
        """The verdict as a heading: two fine-tunes look like a model and its fine-tune."""
        both = "fine-tuned: one from the other, or both from a common origin"
        return both if self.verdict == "fine-tuned" else self.verdict

    @property
    def calibration(self) -> str:
        """How certain the common origin is, in words."""
        return Lineage((self.one, self.two), (self,)).calibration

    @property
    def digits(self) -> int:
        """Decimals that tell the share of relatives from its threshold: two, or more if needed."""
        if self.kinship is None:
            return 2
        pair = self.kinship.share, self.kinship.threshold
        apart = (n for n in range(2, 17) if len({f"{x:.{n}f}" for x in pair}) == 2)
        return next(apart, 2)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = "verdict related reason distance kinship change"
        return stated(self, names, models=[self.one, self.two])


@dataclass(frozen=True)
class Lineage(Unbounded, Tabular):
    """All pairs of several checkpoints, their distances, and the tree of the distances."""

    names: tuple[str, ...]
    pairs: tuple[Relation, ...]
    status: ClassVar[Status] = "measured"
    how: ClassVar[str] = "nearest relatives of heads and units, all pairs"

    def __iter__(self) -> Iterator[Relation]:
        return iter(self.pairs)

    @property
    def calibration(self) -> str:
        """How certain common origins are, in words."""
        limits = sorted(x.kinship.threshold for x in self.pairs if x.kinship is not None)
        if not limits:
            return ""
        digits = max(pair.digits for pair in self.pairs) - 2
        ends = dict.fromkeys(f"{x:.{digits}%}" for x in (limits[0], limits[-1]))
        return f"threshold {' to '.join(ends)}; {TRAINED_APART}"

    @property
    def verdict(self) -> Kind | None:
        """The verdict on two checkpoints; None if there are more."""
        return self.pairs[0].verdict if len(self.pairs) == 1 else None

    @property
    def distances(self) -> Array:
        """Distances, (n, n)."""
        n = len(self.names)
        out = np.zeros((n, n))
        for (i, j), pair in zip(combinations(range(n), 2), self.pairs, strict=True):
            out[i, j] = out[j, i] = pair.distance
        return out

    @property
    def tree(self) -> Array:
        """The tree of the distances by average linkage, in SciPy's format: (n - 1, 4)."""
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

        return np.asarray(linkage(squareform(self.distances, checks=False), "average"))

    @property
    def branches(self) -> tuple[tuple[str, str, float], ...]:
        """The tree of nearest relatives: pairs that join each group with the least distance.

        Each comes as the one nearer to the middle of the group, the other, and their distance.
        """
        found, apart = [], self.distances
        for group in self.groups:
            left = [self.names.index(name) for name in group]
            done = [left.pop(int(apart[np.ix_(left, left)].sum(axis=1).argmin()))]
            while left:
                i, j = min(((i, j) for i in done for j in left), key=lambda x: apart[x])
                found.append((self.names[i], self.names[j], float(apart[i, j])))
                done.append(j)
                left.remove(j)
        return tuple(found)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of checkpoints connected by pairs with a common origin."""
        group = {name: {name} for name in self.names}
        for pair in self.pairs:
            if pair.related:
                joined = group[pair.one] | group[pair.two]
                group |= dict.fromkeys(joined, joined)
        found = {tuple(n for n in self.names if n in group[name]): None for name in self.names}
        return tuple(found)

    @property
    def value(self) -> tuple[tuple[str, ...], ...]:
        """The groups."""
        return self.groups

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        apart, tree = self.distances.tolist(), self.tree.tolist()
        own = {"models": list(self.names), "distances": apart, "tree": tree}
        return stated(self, "groups pairs branches", **own)


def related_checkpoints(one: Model, two: Model, progress: Progress = no_progress) -> Relation:
    """How two opened checkpoints are related."""
    one, two, _ = in_one_form(one, two)
    keys = set(differing_keys(one.spec, two.spec))
    alone = one.spec.share or one.spec.embed or not one.spec.vocab
    if not keys <= (PRUNABLE - {"layers", "d", "head", "dv"} if alone else PRUNABLE):
        require_same_architecture(one, two)
    if not keys and (equal := _identical(one, two)) is not None:
        return equal
    found = rebuilt(one, two)
    out = _compared(found.one, found.two, progress)
    if not found.found or not out.related:
        return out
    rest = out.reason if out.verdict == "pruned" else f"apart from that: {out.verdict}"
    reason = "; ".join([*(words for _, words in found.found if words), rest])
    return replace(out, verdict=found.found[0][0], reason=reason)


def _identical(one: Model, two: Model) -> Relation | None:
    """The verdict on files with the same numbers, in the same type."""
    require_same_scale(one, two)
    if one.roundoff() != two.roundoff() or differences(one, two).differing:
        return None
    return Relation(one.name, two.name, "identical", "all tensors have the same values")


def _compared(one: Model, two: Model, progress: Progress) -> Relation:
    """The verdict on two whose layers and tokens are in the same places."""
    keys = differing_keys(one.spec, two.spec)  # the number of heads or units
    if not keys and (equal := _identical(one, two)) is not None:
        return equal
    kin, changed = kinship(one, two, progress), None
    said = _strangers(kin)
    if keys and kin.related:
        both = ((key, getattr(one.spec, key), getattr(two.spec, key)) for key in sorted(keys))
        sizes = ", ".join(f"{key} is {a} and {b}" for key, a, b in both)
        said = "pruned", f"{sizes}; {kin.in_words()}"
    elif not keys and (same := _copied(one, two, kin, progress)) is not None:
        said = same
    elif kin.related:
        grids = grid_of(one), grid_of(two)
        changed = change(one, two, max((x.dtype for x in grids), key=unit_roundoff), progress)
        said = _changed(changed, kin, *grids)
    return Relation(one.name, two.name, *said, kin, changed)


def _copied(one: Model, two: Model, kin: Kinship, progress: Progress) -> tuple[Kind, str] | None:
    """The verdict on two that are one function, which is asked of near relatives alone."""
    near = max(NEAR, UNITS * max(one.roundoff(), two.roundoff()))
    if kin.related is False or (kin.related and kin.distance > near):
        return None
    found = same(one, two, progress=progress)
    return _same(found, in_place=differences(one, two).in_place) if found.same else None


def _same(found: Comparison, *, in_place: bool) -> tuple[Kind, str]:
    if found.verdict == "identical" or in_place:
        return "identical" if found.verdict == "identical" else "rounded", found.reason
    exact = found.roundoff is not None and found.roundoff <= EXACT
    reason = f"{found.reason}; outputs differ by {found.outputs:.2g}"
    return "same function, moved" if exact else "same up to rounding, moved", reason


def _strangers(kin: Kinship) -> tuple[Kind, str]:
    if kin.related is False:
        return "unrelated", "no evidence of a common origin"
    return "undecided", "too few heads and units, or too few similar ones, to decide"


def _changed(found: Change, kin: Kinship, one: Grid, two: Grid) -> tuple[Kind, str]:
    """What was done to one of two checkpoints of the same origin, by the first sign of it."""
    moved, noise = found.moved, found.is_noise
    where = "after a change of basis, " if moved else ""
    what = "matrices" if found.layers else "only embedding tables"
    size = f"{where}{what} differ by {100 * found.size:.3g}%"
    rounded = one.type != two.type and not moved and found.widest <= SPACING
    vectors = rounded and found.vectors > SPACING
    narrow = max((one, two), key=lambda grid: unit_roundoff(grid.dtype)).type
    bits = [grid.bits for grid in (one, two) if grid.bits is not None]
    ours, theirs = kin.silent
    sure = found.size * found.numbers**0.5 > SURE
    fell = -kin.growth / max(found.size**2, 1e-300)
    lost = sure and kin.growth < LOST * found.size**2
    squares = f"the squares of the second are smaller by {fell:.2f} squares of that difference"
    zeroed = found.zeroed >= ZEROED
    zeros = f"{found.zeroed:.1%} of the values are zero in only one of them"
    about = f"(structure {found.structure:.2f}; 1 is pure noise)"
    alone = "values changed independently of each other"
    before = "as noise does, or rounding before the change of basis"
    if vectors or not found.layers + found.tables:
        more = "differ by more than rounding" if found.layers + found.tables else "differ"
        return "fine-tuned", f"{'' if vectors else where}only vectors {more}, no matrices"
    signs: list[tuple[bool, Kind, str]] = [
        (rounded, "rounded", f", and all values of one are exact in type {narrow}"),
        (len(bits) == 1, "quantised", f"; the matrices of one are quantised to {sum(bits)} bits"),
        (ours != theirs, "pruned", f"; {ours:,} and {theirs:,} heads and units have zero output"),
        (zeroed and moved and sure and not lost, "quantised", f"; {zeros}, and the others changed"),
        (zeroed, "pruned", f"; {zeros}"),
        (moved and noise and lost, "pruned", f"; {squares}; 1 is values removed, -1 noise"),
        (moved and noise, "noise added", f"; {alone}, {before} {about}"),
        (noise, "noise added", f"; {alone} {about}"),
        (True, "fine-tuned", f"; rows changed together {about}"),
    ]
    return next((kind, f"{size}{words}") for seen, kind, words in signs if seen)


@on_models(1 << 20)
def lineage(*models: Source, progress: Progress = no_progress) -> Lineage:
    """How two or more checkpoints are related: verdicts on all pairs, distances, a tree.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     found = lineage(model, move(model, f"{folder}/moved").directory)
    >>> found.verdict, found.groups
    ('same function, moved', (('model', 'moved'),))
    """
    if len(models) < 2:
        raise CheckpointError(
            "a lineage needs at least two checkpoints; give another model directory"
        )
    names = [shown(model.name) for model in models]
    if len(set(names)) < len(names):
        names = [f"{name} ({i})" for i, name in enumerate(names, 1)]
    pairs = tuple(
        replace(related_checkpoints(one, two, progress), one=names[i], two=names[j])
        for (i, one), (j, two) in combinations(enumerate(models), 2)
    )
    return Lineage(tuple(names), tuple(_among_others(pair, pairs) for pair in pairs))


def _among_others(pair: Relation, pairs: Sequence[Relation]) -> Relation:
    """The verdict on a pair that was trained, in view of all others.

    Seen from the origin of two models, or from one on the way between them, they are further apart
    than any other two of the three. If a third lies between them in this sense, or none of the
    three between the two others, then nothing shows that one of the pair came from the other.
    """
    if pair.verdict != "fine-tuned":
        return pair
    apart = {frozenset((x.one, x.two)): x.distance for x in pairs if x.related}
    for third in dict.fromkeys(name for x in pairs for name in (x.one, x.two)):
        a, b = (apart.get(frozenset((third, name)), 0.0) for name in (pair.one, pair.two))
        if min(a, b) <= CLOSE * pair.distance:
            continue
        c = pair.distance
        here, *there = _cosine(a, b, c), _cosine(a, c, b), _cosine(b, c, a)
        least, second, _ = sorted((here, *there))
        if here == least or second - least < BETWEEN:
            reason = f"{third} lies between them"
            if second - least < BETWEEN:
                reason = f"of these two and {third}, none lies between the two others"
            return replace(pair, verdict="common origin", reason=reason)
    return pair


def _cosine(one: float, two: float, opposite: float) -> float:
    """Of the angle between two sides of a triangle."""
    return (one**2 + two**2 - opposite**2) / max(2 * one * two, 1e-300)
