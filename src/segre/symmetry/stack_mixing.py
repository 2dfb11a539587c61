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
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.spec import Network
from segre.stack.stages import named
from segre.symmetry.head_mixing import BilinearHeads, Tangents, inverse
from segre.symmetry.piece import Canvas, ModularWeights, Piece
from segre.symmetry.reach import HeadPlace, heads_of

Build = Callable[[ModularWeights], Array]
FACTORED = "mix-factored-heads"  # heads whose value map is a product; no certificate has it


@dataclass(frozen=True)
class Together:
    """What several heads of a layer (from 0) have free together."""

    layer: int
    places: list[HeadPlace]
    build: Build

    def __call__(self, w: ModularWeights) -> Array:
        """The generators."""
        return self.build(w)


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
        where, free = f"layer {self.i + 1}", Together(self.i, self.places, build)
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
    """All heads mix, or some, if their ranks allow it."""
    image, i, width = w.passage.image(alike.i), alike.i, alike.layer.width_in
    found: list[Tangents] = []
    if image is None:
        return w.canvas(0).rows
    a, arrives = alike.layer.a, image.shape[1]
    V = alike.maps(w, "W_V")
    if alike.layer.dv is not None:
        V = w.field.matmul(alike.maps(w, "W_O"), V)
    (K, keys), (Q, queries) = (_with_bias(w, alike, image, letter) for letter in "KQ")
    if keys.shape == queries.shape == image.shape:
        heads = BilinearHeads(w.field, K, Q, V, image)
        full = arrives <= (2 * a if alike.joint else a)
        found = list(heads.of_full_rank(alike.joint) if full else heads.of_small_rank())
    elif keys.shape[1] <= a:
        found = list(BilinearHeads(w.field, K, Q, V, keys).of_full_rank(parallel=False))
    else:
        other = BilinearHeads(w.field, Q, K, V, queries).of_full_rank(parallel=False)
        found = [(dK, dQ, dV) for dQ, dK, dV in other]
    canvas = w.canvas(len(found))
    for n, changes in enumerate(found):
        if alike.layer.dv is not None:
            _factor(w, alike, changes[2], image, canvas, n)
        for letter, change in zip("KQV" if alike.layer.dv is None else "KQ", changes, strict=False):
            for at, own in zip(alike.places, change, strict=True):
                canvas(str(i + 1), named(at.group, f"W_{letter}"))[n, at.head] = own[:, :width]
                if own.shape[1] > width:
                    bias = canvas(str(i + 1), named(at.group, f"b_{letter}"))
                    bias[n, at.head] = own[:, width:]
    return canvas.rows


def _factor(
    w: ModularWeights, alike: Alike, changes: Array, image: Array, canvas: Canvas, n: int
) -> None:
    """Changes of the value maps of heads as changes of W_O or W_V, equal on all that arrives."""
    F, part, dv = w.field, str(alike.i + 1), alike.layer.dv or 0
    out, r = alike.layer.width_out, image.shape[1]
    for at, change in zip(alike.places, changes, strict=True):
        V, O = (w(part, named(at.group, name))[at.head] for name in ("W_V", "W_O"))  # noqa: E741
        if not change.any():
            continue
        if dv >= r:
            square = inverse(F, F.matmul(V[:r], image))
            dO = canvas(part, named(at.group, "W_O"))[n, at.head]
            dO[:, :r] = F.matmul(F.matmul(change, image), square)
        else:
            dV = canvas(part, named(at.group, "W_V"))[n, at.head]
            dV[:out] = F.matmul(inverse(F, O[:, :out]), change)


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
        j, c = np.indices(tensor.shape[1:]).reshape(2, -1)
        for h in range(len(tensor)):
            values, scores = W[h][None], A[h][None]
            if name == "W_K":
                scores = _outer(F, B[c], Q[h, j])
            elif name == "W_Q":
                scores = _outer(F, K[h, j], B[c])
            elif name == "W_V" and "W_O" in own:
                values = _outer(F, own["W_O"][h].T[j], B[c])
            else:
                values = _outer(F, np.eye(W.shape[1])[j], V[h, c] if name == "W_O" else B[c])
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
