"""Changes of the keys and queries of one head that leave its mixing weights unchanged.

Each function covers one property of a mechanism. A change is a tangent of the tensors of the
head; docs/mechanisms.md has the formulas, and why each leaves the weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.attention.symmetries import (
    FEATURE_ROW,
    KEY_BIAS,
    KEY_FILTER,
    LENGTHS,
    MEANS,
    QUERY_BIAS,
    SCORE_SCALE,
    query_key,
    rotations,
    skew_scores,
)
from segre.fields.interface import Array

Change = dict[str, Array]  # tangents of a head's tensors, by name: (count, rows, columns)
Own = Callable[[str], Array]  # a tensor of the head
Pairs = tuple[Array, Array]  # numbers j, and as many numbers k


@dataclass(frozen=True)
class Family:
    """Changes that belong together."""

    kind: str
    name: str
    changes: Callable[[Own], Iterator[Change]]


@dataclass(frozen=True)
class Head:
    """What the changes depend on: the mechanism on t tokens, sizes, names of tensors."""

    mechanism: Mechanism
    a: int
    tokens: int
    tensors: tuple[str, ...]
    parallel: bool = False  # whether all tokens are multiples of one vector

    def side(self, letter: str) -> tuple[str, ...]:
        """The tensors that make keys (K) or queries (Q): maps, and the bias if there is one."""
        return self._sides[letter]

    @cached_property
    def _sides(self) -> dict[str, tuple[str, ...]]:
        maps = [n for n in self.tensors if n[:2] in ("W_", "b_")]
        return {letter: tuple(n for n in maps if n[2] == letter) for letter in "KQ"}

    def filters(self, letter: str) -> tuple[str, ...]:
        """The weights of a convolution of keys (K) or values (V) by numbers."""
        return tuple(n for n in self.tensors if n.startswith(f"c_{letter}"))

    @cached_property
    def constant(self) -> bool:
        """Whether the weights do not depend on keys and queries at all."""
        one = self.mechanism
        uniform = self.a == 1 and one.splits and one.normalise == "both"
        return one.silent(self.tokens) or (uniform and not one.masked)

    @cached_property
    def stuck(self) -> bool:
        """Whether small changes of keys and queries do not change the weights."""
        two_values = self.a == {"layer": 2, "sphere": 1}.get(self.mechanism.unit)
        return two_values or self.constant


def score_families(head: Head) -> Iterator[Family]:
    """All known changes that leave the mixing weights of a head unchanged.

    Where the scores have no effect at all, that is one family for the layer (`silent_scores`).
    """
    one = head.mechanism
    if head.stuck:
        if "decay" in head.tensors and head.constant:
            yield _silent_decay()
        return
    if head.a == 1 and one.splits and one.normalise != "none":
        letter = "K" if one.normalise == "both" else "Q"
        yield _free(
            head, f"silent-{letter}", "a factor that cancels in the normalisation", (letter,)
        )
    yield from _bases(head)
    yield from _shifts(head)
    yield from _filters(head)
    yield from _skew(head)
    if "decay" in head.tensors and one.alone(head.tokens):
        yield _silent_decay()


def _silent_decay() -> Family:
    return Family("silent-decay", "decay without effect", lambda own: any_change(own, ["decay"]))


def silent_scores(head: Head) -> Family:
    """Any change of keys and queries, where scores have no effect."""
    return _free(head, "silent-scores", "scores without effect", ("K", "Q"))


def _free(head: Head, kind: str, name: str, letters: tuple[str, ...]) -> Family:
    """Any change of the tensors of keys, or of queries."""
    names = [n for letter in letters for n in (*head.side(letter), *head.filters(letter))]

    return Family(kind, name, lambda own: any_change(own, names))


def any_change(own: Own, names: Iterable[str]) -> Iterator[Change]:
    """Any change of some tensors."""
    for name in names:
        shape = own(name).shape
        yield {name: np.eye(own(name).size).reshape(-1, *shape)}


def turned(tensor: Array, pairs: Pairs, sign: int = 1) -> Array:
    """For every pair (j, k): sign E_jk times a tensor."""
    out = np.zeros((len(pairs[0]), *tensor.shape))
    out[range(len(out)), pairs[0]] = sign * tensor[pairs[1]]
    return out


@cache
def all_pairs(n: int, *, diagonal: bool = False) -> Pairs:
    """All (j, k), in row-major order, or only those with j = k."""
    at = np.arange(n) if diagonal else np.arange(n * n)
    return (at, at) if diagonal else (at // n, at % n)


def _bases(head: Head) -> Iterator[Family]:
    """Matrices that act on keys and queries: which ones depends on what is done to them."""
    one, a = head.mechanism, head.a
    if one.unit == "none" and one.feature == "none":
        diagonal = one.conv == "depthwise"
        pairs = all_pairs(a, diagonal=diagonal)
        name = query_key(a, diagonal=diagonal)
        yield Family(*name, lambda own: _opposite(head, own, pairs))
    elif one.unit == "none" and one.feature in ("square", "relu"):
        each = all_pairs(a, diagonal=True)
        yield Family(*query_key(a, diagonal=True), lambda own: _opposite(head, own, each))
    elif one.unit != "none":
        yield Family(*LENGTHS, lambda own: _lengths(head, own))
        if one.feature == "none" and one.conv != "depthwise":
            turning = a - (one.unit == "layer")
            if turning > 1:
                yield Family(*rotations(turning), lambda own: _rotations(head, own))
    if one.homogeneous and one.unit == "none" and one.normalise != "none":
        yield Family(*SCORE_SCALE, lambda own: iter([_scaled(head, own, "Q")]))


def _opposite(head: Head, own: Own, pairs: Pairs) -> Iterator[Change]:
    """dQ = E Q, dK = -E^T K."""
    yield {
        **{name: turned(own(name), pairs) for name in head.side("Q")},
        **{name: turned(own(name), pairs[::-1], -1) for name in head.side("K")},
    }


def _scaled(head: Head, own: Own, letter: str) -> Change:
    return {name: own(name)[None] for name in head.side(letter)}


def _lengths(head: Head, own: Own) -> Iterator[Change]:
    for letter in ("K", "Q"):
        yield _scaled(head, own, letter)
        if head.filters(letter) and "b_K" not in head.tensors:  # which the filter does not scale
            yield {name: own(name)[None] for name in head.filters(letter)}


def _rotations(head: Head, own: Own) -> Iterator[Change]:
    """dQ = S Q, dK = S K with S skew; if tokens are centred, S maps (1, ..., 1) to zero."""
    basis = np.eye(head.a)
    if head.mechanism.unit == "layer":
        basis = basis[:-1] - basis[-1]
    i, j = np.tril_indices(len(basis), -1)
    S = basis[i][:, :, None] * basis[j][:, None]
    S = S - S.swapaxes(1, 2)
    yield {name: S @ own(name) for name in (*head.side("Q"), *head.side("K"))}


def _shifts(head: Head) -> Iterator[Family]:
    """What is added to all entries of keys or queries, or to all scores of a query or key."""
    one = head.mechanism
    if one.unit == "layer":
        yield Family(*MEANS, lambda own: _rows(head, own, "KQ"))
    elif one.sums_of_exponentials:
        letter = {"keys": "Q", "centred": "Q", "both": "K"}.get(one.normalise, "")
        if letter:
            yield Family(*FEATURE_ROW, lambda own: _rows(head, own, letter))
        if one.normalise != "none" and one.bias != "none":
            yield Family("bias-factor", "factor of all features", lambda own: _factors(head, own))
    if one.unit == "none" and one.feature == "exp" and one.bias == "both":
        yield Family("bias-pairs", "bias of features", _bias_pairs)
    if one.unit == one.feature == "none":
        for silent, letter in ((one.ignores_shifts, "K"), (one.ignores_key_shifts, "Q")):
            if silent and f"b_{letter}" in head.tensors:
                yield _one_bias(letter)


def _one_bias(letter: str) -> Family:
    name = KEY_BIAS if letter == "K" else QUERY_BIAS
    return Family(*name, lambda own: any_change(own, [f"b_{letter}"]))


def _rows(head: Head, own: Own, letters: str) -> Iterator[Change]:
    """dW = 1 r^T for every r, and the same of the bias; not where rows are filtered apart."""
    apart = "W_K" if head.mechanism.conv == "depthwise" else ""
    for letter in letters:
        for name in head.side(letter):
            if name != apart:
                rows, columns = own(name).shape
                yield {name: np.repeat(np.eye(columns)[:, None], rows, axis=1)}


def _factors(head: Head, own: Own) -> Iterator[Change]:
    for name in ("b_K", "b_Q"):
        if name in head.tensors:
            yield {name: np.ones_like(own(name))[None]}


def _bias_pairs(own: Own) -> Iterator[Change]:
    change = np.eye(len(own("b_K")))[:, :, None]
    yield {"b_K": change, "b_Q": -change}


def _filters(head: Head) -> Iterator[Family]:
    """Numbers of a convolution of keys against the map before it."""
    if not head.filters("K"):
        return

    def changes(own: Own) -> Iterator[Change]:
        yield from against(own, head.filters("K"), ("W_K",))

    yield Family(*KEY_FILTER, changes)


def against(own: Own, filters: tuple[str, ...], maps: tuple[str, ...]) -> Iterator[Change]:
    """Filters grow, row by row, and the maps before them shrink; or all rows at once."""
    rows = own(filters[0]).shape[0]
    grow = {n: own(n) for n in filters} | {n: -own(n) for n in maps}
    if rows == 1:
        yield {name: tensor[None] for name, tensor in grow.items()}
    else:
        each = all_pairs(rows, diagonal=True)
        yield {name: turned(tensor, each) for name, tensor in grow.items()}


def _skew(head: Head) -> Iterator[Family]:
    """Where only K^T Q + Q^T K counts: dK = M Q and dQ = N K with M, N skew.

    Of features exp(k) exp(q) of the same token only k + q counts.
    """
    one = head.mechanism
    alone = one.alone(head.tokens) and one.normalise == "none"
    if alone and one.feature == "exp" and one.unit == "none":
        yield Family("key-query-sums", "keys against queries", lambda own: _sums(head, own))
    plain = one.unit == one.feature == one.conv == one.bias == "none"
    if not plain or head.a < 2 or not (alone or head.parallel):
        return

    def changes(own: Own) -> Iterator[Change]:
        j, k = np.tril_indices(head.a, -1)
        moved = {n: turned(own(n), (j, k)) - turned(own(n), (k, j)) for n in ("W_Q", "W_K")}
        change = {n: np.zeros((2 * len(j), *own(n).shape)) for n in ("W_K", "W_Q")}
        change["W_K"][0::2], change["W_Q"][1::2] = moved["W_Q"], moved["W_K"]
        yield change

    yield Family(*skew_scores(head.a), changes)


def _sums(head: Head, own: Own) -> Iterator[Change]:
    for K, Q in zip(head.side("K"), head.side("Q"), strict=False):
        for change in any_change(own, [K]):
            if head.mechanism.bias in ("none", "both") or K.startswith("W"):
                yield {K: change[K], Q: -change[K]}
