"""Symmetries between heads of a layer whose weights are the scores and which see the same keys.

Together they compute the sum of V_h (x) A_h, A_h = K_h^T Q_h, on x_k x_k^T and x_q: a tensor that
is symmetric in the two places of x_k (and, if a query sees only itself, in all three). Heads mix
where their ranks allow it; and where there are more weights than such tensors have entries, all
that keeps the tensor is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from segre.attention.layer import Layer
from segre.attention.mechanism import Mechanism
from segre.attention.symmetries import group_of
from segre.errors import UnluckyError
from segre.fields.exchange import exchange
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.spec import Network
from segre.stack.stages import named
from segre.symmetry.piece import Given, ModularWeights, Piece
from segre.symmetry.reach import HeadPlace, heads_of

Build = Callable[[ModularWeights], Array]
FACTORED = "mix-factored-heads"  # heads whose value map is a product; no certificate has it


def together(kind: str, layer: int, places: list[HeadPlace], build: Build) -> Given:
    """What several heads of a layer (from 0) have free together."""
    entry = {"free": "special", "name": kind, "layer": layer + 1}
    return Given(({**entry, "heads": [one.number for one in places]},), build)


@dataclass(frozen=True)
class Alike:
    """Heads of a layer (from 0) whose weights are the scores, and which see the same keys."""

    spec: Network
    i: int
    places: list[HeadPlace]
    arrives: int  # dimension of the space that tokens before the layer fill
    joint: bool  # whether every score is of a token with a multiple of itself

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self.spec.layers[self.i]

    @property
    def any_values(self) -> bool:
        """Whether the value map of a head, as far as it matters, may be any matrix."""
        dv = self.layer.dv
        return dv is None or dv >= min(self.arrives, self.layer.width_out)

    def biased(self, letter: str) -> bool:
        """Whether keys (K) or queries (Q) have a bias."""
        return f"b_{letter}" in self.layer.shapes[self.places[0].group]

    def maps(self, w: ModularWeights, name: str) -> Array:
        """A tensor of all these heads."""
        part = str(self.i + 1)
        return np.stack([w(part, named(at.group, name))[at.head] for at in self.places])

    def piece(self, kind: str, name: str, build: Build) -> Piece:
        """A piece of the layer."""
        where, free = f"layer {self.i + 1}", together(kind, self.i, self.places, build)
        return Piece(kind, name, where, group_of(kind), "exact", None, free, self.i + 1, None)


def alike_heads(spec: Network, i: int, arrives: int, parallel: bool) -> Iterator[Alike]:
    """Heads whose weights are the scores, and which see the same keys with the same decay."""
    found: dict[Mechanism, list[HeadPlace]] = {}
    every = [group.mechanism for group in spec.layers[i].groups]
    plain = [one.bilinear and one.gate == one.conv == "none" for one in every]
    for place in heads_of(spec.layers[i]) if any(plain) else ():
        one = every[place.group].on(spec.t)
        if plain[place.group] and one.decay != "learned":
            found.setdefault(one, []).append(place)
    for one, places in found.items():
        yield Alike(spec, i, places, arrives, parallel or one.alone(spec.t))


def mixed_pieces(alike: Alike) -> Iterator[Piece]:
    """All heads mix, where they have full rank."""
    widths = [alike.arrives + alike.biased(letter) for letter in "KQ"]
    if alike.biased("K") or alike.biased("Q"):
        full = not alike.joint and min(widths) <= alike.layer.a
    else:
        full = alike.arrives <= (2 * alike.layer.a if alike.joint else alike.layer.a)
    if len(alike.places) > 1 and full and alike.any_values:
        name = f"mixing of heads GL({len(alike.places)})"
        kind = "mix-heads" if alike.layer.dv is None else FACTORED
        yield alike.piece(kind, name, partial(_mixed, alike=alike))


def filled_pieces(alike: Alike) -> Iterator[Piece]:
    """Some heads mix, if there are many; or all weights are free that make the same tensor."""
    if alike.biased("K") or alike.biased("Q"):
        return
    layer, heads = alike.layer, len(alike.places)
    free = alike.arrives - layer.a
    if alike.any_values and not alike.joint and free > 0 and heads - 1 > free * free:
        kind = "mix-some-heads" if layer.dv is None else FACTORED
        yield alike.piece(kind, "mixing of some heads", partial(_mixed, alike=alike))
    names = ("W_K", "W_Q", *layer.taps(alike.places[0].group, "W_V"), "W_O")
    shapes = layer.shapes[alike.places[0].group]
    count = heads * sum(prod(shapes[name][1:]) for name in names if name in shapes)
    if count > _entries(alike):
        name = "weights of heads whose joint tensor has fewer entries"
        yield alike.piece("filled", name, partial(_filled, alike=alike))


def _entries(alike: Alike) -> int:
    """The dimension of the space of tensors that the heads can make together."""
    r = alike.arrives
    each = r * (r + 1) * (r + 2) // 6 if alike.joint else r * r * (r + 1) // 2
    return alike.layer.width_out * each


def _mixed(w: ModularWeights, alike: Alike) -> Array:
    """Heads mix: V_h gains c_h V_k for other heads h while A_k loses the c_h A_h, where it can."""
    part, image, width = str(alike.i + 1), w.passage.image(alike.i), alike.layer.width_in
    found = [] if image is None else list(_losses(w, alike, image))
    canvas, V = w.canvas(len(found)), alike.maps(w, "W_V")
    if alike.layer.dv is not None:
        V = w.field.matmul(alike.maps(w, "W_O"), V)
    for n, (k, maps, c) in enumerate(found):
        at, others = alike.places[k], [place for h, place in enumerate(alike.places) if h != k]
        for letter, change in zip("KQ", maps, strict=True):
            canvas(part, named(at.group, f"W_{letter}"))[n, at.head] = change[:, :width]
            if change.shape[1] > width:
                canvas(part, named(at.group, f"b_{letter}"))[n, at.head] = change[:, width:]
        for other, times in zip(others, c, strict=True):
            name, change = _gain(w, alike, other, w.field.mul(times, V[k]))
            canvas(part, named(other.group, name))[n, other.head] = change
    return canvas.rows


def _losses(
    w: ModularWeights, alike: Alike, image: Array
) -> Iterator[tuple[int, tuple[Array, Array], Array]]:
    """Changes of K_k and Q_k by which A_k loses the c_h A_h: solutions of linear equations."""
    F, others = w.field, len(alike.places) - 1
    (K, keys), (Q, queries) = (_with_bias(w, alike, image, letter) for letter in "KQ")
    asked, met = F.matmul(Q, queries), F.matmul(K, keys)
    A = F.matmul(F.transpose(met), asked)
    for k in range(others + 1):
        own = _by_maps(F, asked[k], keys).swapaxes(1, 2), _by_maps(F, met[k], queries)
        changes = np.concatenate([*own, np.delete(A, k, axis=0)])
        if alike.joint:  # only the symmetric part counts
            changes = F.add(changes, changes.swapaxes(1, 2))
        space = Echelon(len(changes), F)
        space.add(np.ascontiguousarray(changes.reshape(len(changes), -1).T))
        for row in F.reduce(space.kernel()):
            if (c := row[-others:]).any():  # else no other head gains
                dK, dQ, _ = np.split(row, [K[k].size, K[k].size + Q[k].size])
                yield k, (dK.reshape(K[k].shape), dQ.reshape(Q[k].shape)), c


def _by_maps(F: Prime, other: Array, tokens: Array) -> Array:
    """Derivatives of other^T W B by the entries of W, for tokens in the columns of B."""
    j, c = np.indices((len(other), len(tokens))).reshape(2, -1)
    return _outer(F, other[j], tokens[c])


def _gain(w: ModularWeights, alike: Alike, at: HeadPlace, change: Array) -> tuple[str, Array]:
    """A change of the value map of a head; if that is W_O W_V, equal on all that arrives."""
    F, part, image = w.field, str(alike.i + 1), w.passage.image(alike.i)
    if alike.layer.dv is None or image is None:
        return "W_V", change
    V, O = (w(part, named(at.group, name))[at.head] for name in ("W_V", "W_O"))  # noqa: E741
    dV, dO = np.zeros_like(V), np.zeros_like(O)
    r, out = image.shape[1], len(change)
    if len(V) >= r:
        dO[:, :r] = F.matmul(F.matmul(change, image), inverse(F, F.matmul(V[:r], image)))
        return "W_O", dO
    dV[:out] = F.matmul(inverse(F, O[:, :out]), change)
    return "W_V", dV


def inverse(field: Prime, matrix: Array) -> Array:
    """The inverse of a square matrix; raises UnluckyError if it is singular."""
    tableau = np.array(matrix)
    rows, columns = exchange(field, tableau)
    if len(rows) < len(matrix):
        raise UnluckyError("a matrix to be inverted is singular at this point; try another seed")
    out = np.empty_like(tableau)
    out[np.ix_(columns, rows)] = tableau[np.ix_(rows, columns)]
    return out


def _with_bias(w: ModularWeights, alike: Alike, image: Array, letter: str) -> tuple[Array, Array]:
    """Maps of tokens, and a basis of these; with a bias, tokens have one more entry, which is 1."""
    maps = alike.maps(w, f"W_{letter}")
    if not alike.biased(letter):
        return maps, image
    basis = np.zeros((len(image) + 1, image.shape[1] + 1))
    basis[:-1, :-1], basis[-1, -1] = image, 1
    return np.concatenate([maps, alike.maps(w, f"b_{letter}")], axis=-1), basis


def _filled(w: ModularWeights, alike: Alike) -> Array:
    """All that keeps the tensor, where the weights reach every tensor near the one they make."""
    part, image = str(alike.i + 1), w.passage.image(alike.i)
    if image is None:
        return w.canvas(0).rows
    F, entries = w.field, _entries(alike)
    names = ["W_K", "W_Q", "W_V", *(["W_O"] if alike.layer.dv is not None else [])]
    own = {name: alike.maps(w, name) for name in names}
    count = sum(tensor.size for tensor in own.values())
    space = Echelon(count, F, capacity=entries)
    space.add(_derivative(F, own, image, alike.joint).T)
    if space.rank < entries:
        return w.canvas(0).rows
    kernel = F.reduce(space.kernel())
    canvas, start = w.canvas(len(kernel)), 0
    for name, tensor in own.items():
        block = kernel[:, start : start + tensor.size].reshape(len(kernel), *tensor.shape)
        start += tensor.size
        for n, at in enumerate(alike.places):
            canvas(part, named(at.group, name))[:, at.head] = block[:, n]
    return canvas.rows


def _derivative(F: Prime, own: dict[str, Array], B: Array, alone: bool) -> Array:
    """Derivatives of the entries of the symmetric tensor by the weights: (weights, entries)."""
    K, Q, V = (F.matmul(own[name], B) for name in ("W_K", "W_Q", "W_V"))
    W = F.matmul(own["W_O"], V) if "W_O" in own else V
    A = F.matmul(F.transpose(K), Q)
    rows: list[Array] = []
    for name, tensor in own.items():
        for h in range(len(tensor)):
            values, scores = W[h][None], A[h][None]
            if name == "W_K":
                scores = _by_maps(F, Q[h], B).swapaxes(1, 2)
            elif name == "W_Q":
                scores = _by_maps(F, K[h], B)
            elif name == "W_V" and "W_O" in own:
                values = _by_maps(F, own["W_O"][h].T, B)
            else:
                values = _by_maps(F, np.eye(W.shape[1]), V[h] if name == "W_O" else B)
            rows.append(_symmetric(F, values, scores, alone))
    return np.concatenate(rows)


def _outer(F: Prime, x: Array, y: Array) -> Array:
    """Products of the entries of vectors, pair by pair."""
    return F.reduce(x[:, :, None] * y[:, None])


def _symmetric(F: Prime, values: Array, scores: Array, alone: bool) -> Array:
    """sum over the orders of the places of x_k (or of all x) of values[o, p] scores[q, s]."""
    full = F.reduce(values[:, :, :, None, None] * scores[:, None, None])  # (..., out, p, q, s)
    half = F.reduce(full + full.swapaxes(2, 3))
    if not alone:
        p, q = _places(scores.shape[-1], 2)
        return half[:, :, p, q].reshape(len(half), -1)
    every = F.reduce(half + half.swapaxes(2, 4) + half.swapaxes(3, 4))
    p, q, s = _places(scores.shape[-1], 3)
    return every[:, :, p, q, s].reshape(len(half), -1)


@cache
def _places(r: int, count: int) -> Array:
    """Numbers below r, so many at a time, in order."""
    return np.array(list(combinations_with_replacement(range(r), count))).T
