"""What is free in one head of a stack, as its mechanism has it.

Each function covers one property of a mechanism; docs/mechanisms.md has the formulas, and why each
leaves the head's function alone. The tensors of a head are named without a part: heads with the
same mechanism have the same families (`OfHead` says whose they are).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from segre.attention.symmetries import (
    FEATURE_ROW,
    KEY_BIAS,
    KEY_FILTER,
    LENGTHS,
    MEANS,
    QUERY_BIAS,
    SCALE,
    SCORE_SCALE,
    VALUE_FILTER,
    query_key,
    rotations,
    skew_scores,
    value_output,
)
from segre.fields.interface import Array
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Entries, Slack, ones
from segre.symmetry.groups import Group
from segre.symmetry.piece import Given, ModularWeights
from segre.symmetry.piece import Head as Place
from segre.symmetry.reach import Head
from segre.symmetry.space import Port, Tensor

Free = Callable[[ModularWeights], Array]  # generators, one per row


@dataclass(frozen=True)
class Family:
    """What is free for one reason."""

    kind: str
    name: str
    free: tuple[Free, ...]


@dataclass(frozen=True)
class OfHead:
    """A family at one head."""

    at: Place
    family: Family

    def __call__(self, w: ModularWeights) -> Array:
        """The generators."""
        own = w.of_head(self.at)
        found = [one(own) for one in self.family.free]
        return found[0] if len(found) == 1 else np.concatenate([w.canvas(0).rows, *found])


@lru_cache(maxsize=4096)
def families(head: Head, dv: int | None, pooled: bool, dead: bool) -> tuple[Family, ...]:
    """All that is free in a head by itself.

    The values of a pooled head are not its own. A dead head mixes nothing. Where scores have no
    effect at all, that is one family for the layer (`silent_scores`).
    """
    found = [] if head.stuck else list(_score_families(head))
    if "decay" in head.tensors and (head.constant if head.stuck else _alone(head)):
        found.append(_any("silent-decay", "decay without effect", ["decay"]))
    if not dead:
        return (*found, *_values(head, dv, pooled))
    names = head.named("W_V", "c_V", "W_G", "W_O")
    return (*found, _any("zero-head", "values of a head that mixes nothing", names))


def silent_scores(head: Head) -> Family:
    """Any change of keys and queries, where scores have no effect."""
    return _any("silent-scores", "scores without effect", _scoring(head, "KQ"))


def _scoring(head: Head, letters: str) -> list[str]:
    return [n for letter in letters for n in (*head.side(letter), *head.filters(letter))]


def _alone(head: Head) -> bool:
    """Whether a query sees only its own token."""
    return head.mechanism.alone(head.tokens)


# --- what tensors of a head have free -------------------------------------------------------------


def _tensors(names: Iterable[str]) -> tuple[Tensor, ...]:
    return tuple(("", name) for name in names)


def _any(kind: str, name: str, names: Iterable[str]) -> Family:
    """Any change of some tensors."""
    return Family(kind, name, tuple(Entries(tensor) for tensor in _tensors(names)))


def _ports(names: Iterable[str], *, reads: bool = False) -> tuple[Port, ...]:
    """The rows of tensors."""
    return tuple(Port(tensor, reads=reads) for tensor in _tensors(names))


def _opposite(group: Group, width: int, up: Iterable[str], down: Iterable[str]) -> Basis:
    """M W for some tensors, M^-T W for others."""
    return Basis(width, group, (*_ports(up), *_ports(down, reads=True)))


def _scale(up: Iterable[str], down: Iterable[str] = (), degree: int = 1) -> Scale:
    return Scale(_tensors(up), _tensors(down), degree=degree)


def _equal_rows(head: Head, names: Iterable[str]) -> tuple[Slack, ...]:
    """1 r^T for every r is added to a tensor."""
    return tuple(Slack(Port(("", name)), ones(head.tensors[name])) for name in names)


def _against(head: Head, filters: tuple[str, ...], maps: tuple[str, ...]) -> Basis | Scale:
    """Filters grow, row by row, and the maps before them shrink; or all rows at once."""
    width = head.tensors[filters[0]]
    one_for_all = width == 1
    return _scale(filters, maps) if one_for_all else _opposite("torus", width, filters, maps)


# --- scores ---------------------------------------------------------------------------------------


def _score_families(head: Head) -> Iterator[Family]:
    """All that leaves the mixing weights of a head unchanged, where scores have an effect."""
    one = head.mechanism
    if head.a == 1 and one.splits and one.normalise != "none":
        letter = "K" if one.normalise == "both" else "Q"
        name = "a factor that cancels in the normalisation"
        yield _any(f"silent-{letter}", name, _scoring(head, letter))
    yield from _bases(head)
    yield from _shifts(head)
    if filters := head.filters("K"):
        yield Family(*KEY_FILTER, (_against(head, filters, ("W_K",)),))
    yield from _skew(head)


def _bases(head: Head) -> Iterator[Family]:
    """Matrices that act on keys and queries: which ones depends on what is done to them."""
    one, a = head.mechanism, head.a
    keys, queries = head.side("K"), head.side("Q")
    if one.unit == "none" and one.feature in ("none", "square", "relu"):
        diagonal = one.feature != "none" or one.conv == "depthwise"
        group: Group = "torus" if diagonal else "gl"
        free = _opposite(group, a, keys, queries)
        yield Family(*query_key(a, diagonal=diagonal), (free,))
    elif one.unit != "none":
        yield Family(*LENGTHS, tuple(_scale(names) for names in _scaled_apart(head)))
        turning = a - (one.unit == "layer")
        if one.feature == "none" and one.conv != "depthwise" and turning > 1:
            turns = Basis(a, "o1" if one.unit == "layer" else "o", _ports((*queries, *keys)))
            yield Family(*rotations(turning), (turns,))
    if one.homogeneous and one.unit == "none" and one.normalise != "none":
        yield Family(*SCORE_SCALE, (_scale(queries),))


def _scaled_apart(head: Head) -> Iterator[tuple[str, ...]]:
    """Tensors whose common factor disappears when keys, or queries, get length one."""
    for letter in "KQ":
        yield head.side(letter)
        if head.filters(letter) and "b_K" not in head.tensors:  # which the filter does not scale
            yield head.filters(letter)


def _shifts(head: Head) -> Iterator[Family]:
    """What is added to all entries of keys or queries, or to all scores of a query or key."""
    one, biases = head.mechanism, head.named("b_K", "b_Q")
    letters = {"keys": "Q", "centred": "Q", "both": "K"}.get(one.normalise, "")
    apart = "W_K" if one.conv == "depthwise" else ""  # whose rows are filtered apart
    if one.unit == "layer" or (one.sums_of_exponentials and letters):
        letters = "KQ" if one.unit == "layer" else letters
        names = [n for letter in letters for n in head.side(letter) if n != apart]
        yield Family(*(MEANS if one.unit == "layer" else FEATURE_ROW), _equal_rows(head, names))
    if one.unit != "layer" and one.sums_of_exponentials and one.normalise != "none" and biases:
        yield Family("bias-factor", "factor of all features", _equal_rows(head, biases))
    if one.unit == "none" and one.feature == "exp" and one.bias == "both":
        listed = [{"tensor": f"/{name}"} for name in ("b_K", "b_Q")]
        entry = {"free": "constants", "sources": listed}
        pairs = Given((entry,), lambda w: _sums(w, [("b_K", "b_Q")]))
        yield Family("bias-pairs", "bias of features", (pairs,))
    if one.unit == one.feature == "none":
        for silent, name in ((one.ignores_shifts, KEY_BIAS), (one.ignores_key_shifts, QUERY_BIAS)):
            bias = "b_K" if name is KEY_BIAS else "b_Q"
            if silent and bias in biases:
                yield _any(*name, [bias])


def _skew(head: Head) -> Iterator[Family]:
    """Where only K^T Q + Q^T K counts: dK = M Q and dQ = N K with M, N skew.

    Of features exp(k) exp(q) of the same token only k + q counts.
    """
    one = head.mechanism
    alone = _alone(head) and one.normalise == "none"
    if alone and one.feature == "exp" and one.unit == "none":
        pairs = list(zip(head.side("K"), head.side("Q"), strict=False))
        pairs = [p for p in pairs if one.bias in ("none", "both") or p[0].startswith("W")]
        sums = _special("key-query-sums", lambda w: _sums(w, pairs))
        yield Family("key-query-sums", "keys against queries", (sums,))
    plain = one.unit == one.feature == one.conv == one.bias == "none"
    if plain and head.a > 1 and (alone or head.parallel):
        yield Family(*skew_scores(head.a), (_special("skew-scores", _skew_scores),))


def _special(name: str, build: Free) -> Given:
    """What the kernel has a lemma of its own for."""
    return Given(({"free": "special", "name": name},), build)


def _sums(w: ModularWeights, pairs: list[tuple[str, str]]) -> Array:
    found = [w.canvas(0).rows]
    for K, Q in pairs:
        canvas = w.canvas(w("", K).size)
        for name, sign in ((K, 1), (Q, -1)):
            entries = canvas("", name)
            entries[:] = sign * np.eye(len(entries)).reshape(entries.shape)
        found.append(canvas.rows)
    return np.concatenate(found)


def _skew_scores(w: ModularWeights) -> Array:
    j, k = np.tril_indices(len(w("", "W_K")), -1)
    canvas, every = w.canvas(2 * len(j)), np.arange(len(j))
    for first, name, other in ((0, "W_K", "W_Q"), (1, "W_Q", "W_K")):
        changes, tensor = canvas("", name)[first::2], w("", other)
        changes[every, j], changes[every, k] = tensor[k], -tensor[j]
    return canvas.rows


# --- values ---------------------------------------------------------------------------------------


def _values(head: Head, dv: int | None, pooled: bool) -> Iterator[Family]:
    """Values against outputs, and scores against values."""
    one, values = head.mechanism, head.named("W_V")
    last = values if dv is None else ("W_O",)
    if dv is not None and not pooled:
        ports = (*_ports(values), Port(("", "W_O"), -1, True))
        free = Basis(dv, "torus" if one.rowwise else "gl", ports)
        yield Family(*value_output(dv, diagonal=one.rowwise), (free,))
    if filters := head.filters("V"):
        yield Family(*VALUE_FILTER, (_against(head, filters, ("W_V",)),))
    if one.scales:  # a factor of the scores is one of the pattern
        power = one.power * (2 if one.feature == "square" else 1)
        yield Family(*SCALE, (_scale(head.side("Q"), last, power),))
    biases = [name for name in ("b_Q", "b_K") if name in head.tensors]
    if one.sums_of_exponentials and one.normalise == "none" and biases:
        scaled = _special("bias-against-values", lambda w: _bias_scale(w, last, biases[0]))
        yield Family("scale", "bias of features against values", (scaled,))


def _bias_scale(w: ModularWeights, last: tuple[str, ...], bias: str) -> Array:
    canvas = w.canvas(1)
    for name in last:
        canvas("", name)[0] = w("", name)
    canvas("", bias)[:] = -1
    return canvas.rows
