"""Symmetries between heads of a layer whose weights are the scores and which see the same keys.

Together they compute the sum of V_h (x) A_h, A_h = K_h^T Q_h, on x_k x_k^T and x_q: a tensor that
is symmetric in the two places of x_k (and, if a query sees only itself, in all three). Heads mix
where their ranks allow it; and where there are more weights than such tensors have entries, all
that keeps the tensor is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.geometry.gauge.head_mixing import BilinearHeads, Tangents
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.hybrid_passage import HeadPlace, HybridPassage, heads_of
from segre.spec import Network
from segre.stack.stages import named


def mixing_pieces(spec: Network, i: int, parallel: bool) -> Iterator[Piece]:
    """Of one layer (from 0)."""
    layer, where = spec.layers[i], f"layer {i + 1}"
    for places in _alike(spec, i):
        alone = layer.groups[places[0].group].mechanism.alone(spec.t)
        if len(places) > 1 and layer.dv is None:
            build = partial(_mixed, i=i, places=places, parallel=parallel or alone)
            name = f"mixing of {len(places)} heads"
            yield Piece("mix-heads", name, where, "VO", "exact", None, build, i + 1, None)
        if layer.groups[places[0].group].mechanism.bias == "none":
            build = partial(_filled, i=i, places=places, alone=parallel or alone)
            name = "weights of heads whose joint tensor has fewer entries"
            yield Piece("filled", name, where, "VO", "exact", None, build, i + 1, None)


def _alike(spec: Network, i: int) -> list[list[HeadPlace]]:
    """Heads whose weights are the scores, and which see the same keys with the same decay."""
    found: dict[Mechanism, list[HeadPlace]] = {}
    for place in heads_of(spec.layers[i]):
        one = spec.layers[i].groups[place.group].mechanism.on(spec.t)
        plain = one.bilinear and one.gate == one.conv == "none"
        if plain and one.decay != "learned":
            found.setdefault(one, []).append(place)
    return list(found.values())


def _maps(w: ModularWeights, i: int, places: list[HeadPlace], name: str) -> Array:
    part = str(i + 1)
    return np.stack([w(part, named(place.group, name))[place.head] for place in places])


def _mixed(w: ModularWeights, i: int, places: list[HeadPlace], parallel: bool) -> Array:
    """All heads mix, or some, if their ranks allow it."""
    image = HybridPassage(w).images[i]
    assert isinstance(w.spec, Network)
    found: list[Tangents] = []
    if image is None:
        return np.zeros((0, w.spec.parameters))
    a, arrives = w.spec.layers[i].a, image.shape[1]
    V = _maps(w, i, places, "W_V")
    (K, keys), (Q, queries) = (_with_bias(w, i, places, image, letter) for letter in "KQ")
    if keys.shape == queries.shape == image.shape:
        heads = BilinearHeads(w.field, K, Q, V, image)
        if arrives <= (2 * a if parallel else a):
            found = list(heads.of_full_rank(parallel))
        elif not parallel and len(places) - 1 > (arrives - a) ** 2:
            found = list(heads.of_small_rank())
    elif not parallel and keys.shape[1] <= a:
        found = list(BilinearHeads(w.field, K, Q, V, keys).of_full_rank(parallel=False))
    elif not parallel and queries.shape[1] <= a:
        other = BilinearHeads(w.field, Q, K, V, queries).of_full_rank(parallel=False)
        found = [(dK, dQ, dV) for dQ, dK, dV in other]
    canvas = w.canvas(len(found))
    for n, changes in enumerate(found):
        for letter, change in zip("KQV", changes, strict=True):
            for place, own in zip(places, change, strict=True):
                width = w.spec.layers[i].width_in
                canvas(str(i + 1), named(place.group, f"W_{letter}"))[n, place.head] = own[
                    :, :width
                ]
                if own.shape[1] > width:
                    canvas(str(i + 1), named(place.group, f"b_{letter}"))[n, place.head] = own[
                        :, width:
                    ]
    return canvas.rows


def _with_bias(
    w: ModularWeights, i: int, places: list[HeadPlace], image: Array, letter: str
) -> tuple[Array, Array]:
    """Maps of tokens, and a basis of these; with a bias, tokens have one more entry, which is 1."""
    assert isinstance(w.spec, Network)
    maps = _maps(w, i, places, f"W_{letter}")
    if f"b_{letter}" not in w.spec.layers[i].shapes[places[0].group]:
        return maps, image
    basis = np.zeros((len(image) + 1, image.shape[1] + 1))
    basis[:-1, :-1], basis[-1, -1] = image, 1
    return np.concatenate([maps, _maps(w, i, places, f"b_{letter}")], axis=-1), basis


def _filled(w: ModularWeights, i: int, places: list[HeadPlace], alone: bool) -> Array:
    """All that keeps the tensor, where the weights reach every tensor near the one they make."""
    assert isinstance(w.spec, Network)
    part, layer, image = str(i + 1), w.spec.layers[i], HybridPassage(w).images[i]
    none = np.zeros((0, w.spec.parameters))
    if image is None:
        return none
    F, r, out = w.field, image.shape[1], layer.width_out
    entries = out * (r * (r + 1) * (r + 2) // 6 if alone else r * r * (r + 1) // 2)
    names = ["W_K", "W_Q", "W_V", *(["W_O"] if layer.dv is not None else [])]
    own = {name: _maps(w, i, places, name) for name in names}
    count = sum(tensor.size for tensor in own.values())
    if count <= entries:
        return none
    change = _derivative(F, own, image, alone)
    space = Echelon(count, F, capacity=entries)
    space.add(change.T)
    if space.rank < entries:
        return none
    kernel = F.reduce(space.kernel())
    canvas, start = w.canvas(len(kernel)), 0
    for name, tensor in own.items():
        block = kernel[:, start : start + tensor.size].reshape(len(kernel), *tensor.shape)
        start += tensor.size
        for n, place in enumerate(places):
            canvas(part, named(place.group, name))[:, place.head] = block[:, n]
    return canvas.rows


def _derivative(F: Prime, own: dict[str, Array], B: Array, alone: bool) -> Array:
    """Derivatives of the entries of the symmetric tensor by the weights: (weights, entries)."""
    K, Q, V = (F.matmul(own[name], B) for name in ("W_K", "W_Q", "W_V"))
    W = F.matmul(own["W_O"], V) if "W_O" in own else V
    A = F.matmul(F.transpose(K), Q)
    rows: list[Array] = []

    def add(values: Array, scores: Array) -> None:
        """values (out, r) (x) scores (r, r), symmetrised."""
        rows.append(_symmetric(F, values, scores, alone))

    for name, tensor in own.items():
        for at in np.ndindex(tensor.shape):
            h, j, c = at
            if name == "W_V":
                dV = np.zeros_like(V[h])
                dV[j] = B[c]
                add(F.matmul(own["W_O"][h], dV) if "W_O" in own else dV, A[h])
            elif name == "W_O":
                dW = np.zeros_like(W[h])
                dW[j] = V[h, c]
                add(dW, A[h])
            else:
                other = Q[h, j] if name == "W_K" else K[h, j]
                pair = (B[c], other) if name == "W_K" else (other, B[c])
                add(W[h], F.reduce(np.outer(*pair)))
    return np.stack(rows)


def _symmetric(F: Prime, values: Array, scores: Array, alone: bool) -> Array:
    """sum over the orders of the places of x_k (or of all x) of values[o, p] scores[q, s]."""
    r = scores.shape[0]
    full = F.reduce(values[:, :, None, None] * scores[None, None])  # (out, p, q, s)
    half = F.reduce(full + full.swapaxes(1, 2))
    if not alone:
        p, q = np.array(list(combinations_with_replacement(range(r), 2))).T
        return half[:, p, q].reshape(-1)
    every = F.reduce(half + half.swapaxes(1, 3) + half.swapaxes(2, 3))
    p, q, s = np.array(list(combinations_with_replacement(range(r), 3))).T
    return every[:, p, q, s].reshape(-1)
