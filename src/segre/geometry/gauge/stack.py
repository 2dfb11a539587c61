"""The symmetries of a stack, layer by layer.

Each piece is a family of vector fields on weight space, given by a formula in the weights, along
which the function does not change. The formulas, and why each is a symmetry, are in
docs/mathematics.md, section 3. How many dimensions a piece adds to those before it is counted at
a point: what one layer leaves open depends on what the others read and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from segre.attention.symmetries import (
    POOLED,
    SCALE,
    UNREACHED,
    UNREAD,
    between,
    query_key,
    skew_scores,
    value_output,
)
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.geometry.gauge.head_mixing import BilinearHeads, Tangents
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.reach import annihilator, parallel_tokens, reached, read, silent
from segre.spec import Network

Build = Callable[[ModularWeights], Array]


def stack_pieces(spec: Network) -> Iterator[Piece]:
    """The pieces that apply to a stack, from the last layer to the first.

    In this order the weights that a piece moves are mostly untouched by the pieces before, and
    their joint rank is cheap to compute.
    """
    parallel, arrives, wanted = parallel_tokens(spec), reached(spec), read(spec)
    for i in reversed(range(spec.depth)):
        layer, factored = spec.layers[i], spec.layers[i].dv is not None
        if i + 1 < spec.depth:
            yield _between(spec, i)
        if factored or wanted[i + 1] < layer.width_out:
            yield _unread(spec, i)
        if factored or arrives[i] < layer.width_in:
            yield _unreached(spec, i)
        if silent(spec):
            yield _silent_scores(spec, i)
            if factored or layer.heads > 1:
                yield _pooled_heads(spec, i)
        else:
            yield from _heads(spec, i, parallel[i])
            if _heads_mix(spec, i, arrives[i], parallel[i]):
                yield _mix_heads(spec, i, parallel[i])


def place(spec: Network, kind: str, layer: int, head: int | None) -> str:
    """Where a piece acts, in words; a lone head is not mentioned."""
    if kind == "between":
        return f"between layers {layer} and {layer + 1}"
    several = spec.layers[layer - 1].heads > 1
    return f"layer {layer}" + (f", head {head}" if several and head is not None else "")


def _piece(
    spec: Network, kind: str, name: str, i: int, build: Build, head: int | None = None
) -> Piece:
    number = None if head is None else head + 1
    where = place(spec, kind, i + 1, number)
    return Piece(kind, name, where, "", "exact", None, build, i + 1, number)


def _last(spec: Network, i: int) -> str:
    """The tensor that writes what a layer computes."""
    return "W_V" if spec.layers[i].dv is None else "W_O"


def _heads(spec: Network, i: int, parallel: bool) -> Iterator[Piece]:
    head = spec.layers[i]
    for h in range(head.heads):
        yield _query_key(spec, i, h)
        if spec.mechanism.bilinear and parallel and head.a > 1:
            yield _skew_scores(spec, i, h)
        if head.dv is not None:
            yield _value_output(spec, i, h)
        if spec.mechanism.scales:
            yield _scale(spec, i, h)


def _query_key(spec: Network, i: int, h: int) -> Piece:
    """(K, Q) -> (G^-T K, G Q): dQ = E Q, dK = -E^T K."""
    a, part = spec.layers[i].a, str(i + 1)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(a * a)
        dK, dQ = canvas(part, "W_K"), canvas(part, "W_Q")
        j, k = np.divmod(np.arange(a * a), a)
        dQ[range(a * a), h, j] = w(part, "W_Q")[h, k]
        dK[range(a * a), h, k] = -w(part, "W_K")[h, j]
        return canvas.rows

    return _piece(spec, *query_key(a), i, build, h)


def _skew_scores(spec: Network, i: int, h: int) -> Piece:
    """Parallel tokens: dK = M Q and dQ = N K with M, N skew change A by skew matrices."""
    a, part = spec.layers[i].a, str(i + 1)

    def build(w: ModularWeights) -> Array:
        K, Q = w(part, "W_K")[h], w(part, "W_Q")[h]
        pairs = [(j, k) for j in range(a) for k in range(j)]
        canvas = w.canvas(2 * len(pairs))
        dK, dQ = canvas(part, "W_K"), canvas(part, "W_Q")
        for n, (j, k) in enumerate(pairs):
            dK[2 * n, h, j], dK[2 * n, h, k] = Q[k], -Q[j]
            dQ[2 * n + 1, h, j], dQ[2 * n + 1, h, k] = K[k], -K[j]
        return canvas.rows

    return _piece(spec, *skew_scores(a), i, build, h)


def _value_output(spec: Network, i: int, h: int) -> Piece:
    """(W_V, W_O) -> (G W_V, W_O G^-1) within one head."""
    dv, part = spec.layers[i].dv or 0, str(i + 1)

    def build(w: ModularWeights) -> Array:
        V, out = w(part, "W_V")[h], w(part, "W_O")[h]
        canvas = w.canvas(dv * dv)
        dV, dO = canvas(part, "W_V"), canvas(part, "W_O")
        for j in range(dv):
            for k in range(dv):
                dV[j * dv + k, h, j] = V[k]
                dO[j * dv + k, h, :, k] = -out[:, j]
        return canvas.rows

    return _piece(spec, *value_output(dv), i, build, h)


def _scale(spec: Network, i: int, h: int) -> Piece:
    """(V, Q) -> (c V, Q / c), where a factor of the scores is one of the pattern."""
    part, last = str(i + 1), _last(spec, i)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        canvas(part, last)[0, h] = w(part, last)[h]
        canvas(part, "W_Q")[0, h] = -w(part, "W_Q")[h]
        return canvas.rows

    return _piece(spec, *SCALE, i, build, h)


def _between(spec: Network, i: int) -> Piece:
    """Basis of the tokens between two layers: written with C, read with C^-1."""
    d, part, after, last = spec.layers[i].width_out, str(i + 1), str(i + 2), _last(spec, i)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(d * d)
        j, k = np.divmod(np.arange(d * d), d)
        canvas(part, last)[range(d * d), :, j] = w(part, last)[:, k].swapaxes(0, 1)
        for name in ("W_K", "W_Q", "W_V"):
            reading = np.moveaxis(w(after, name)[:, :, j], -1, 0)
            canvas(after, name)[range(d * d), :, :, k] = -reading
        return canvas.rows

    return _piece(spec, *between(d), i, build)


def _unreached(spec: Network, i: int) -> Piece:
    """Add to the rows of a map any linear form that vanishes on all possible inputs."""
    head, part = spec.layers[i], str(i + 1)

    def build(w: ModularWeights) -> Array:
        image = w.passage.images[i]
        outside = _outside(w.field, image.T)
        blind = dict.fromkeys(("W_K", "W_Q", "W_V"), _in_each_head([outside] * head.heads))
        if head.dv is not None:
            blind["W_O"] = _annihilators(w, w.field.matmul(w(part, "W_V"), image))
        canvas = w.canvas(sum(w(part, n).shape[1] * len(f) for n, f in blind.items()))
        start = 0
        for name, forms in blind.items() if len(canvas.rows) else ():
            tensor = canvas(part, name)
            for row in range(tensor.shape[2]):
                tensor[start : start + len(forms), :, row] = forms
                start += len(forms)
        return canvas.rows

    return _piece(spec, *UNREACHED, i, build)


def _unread(spec: Network, i: int) -> Piece:
    """Add to the columns of a map any vector that nothing later reads."""
    head, part = spec.layers[i], str(i + 1)

    def build(w: ModularWeights) -> Array:
        forms = w.passage.forms[i + 1]
        unread = {_last(spec, i): _in_each_head([_outside(w.field, forms)] * head.heads)}
        if head.dv is not None:
            written = w.field.matmul(forms, w(part, "W_O"))
            unread["W_V"] = _annihilators(w, w.field.transpose(written))
        canvas = w.canvas(sum(w(part, n).shape[2] * len(v) for n, v in unread.items()))
        start = 0
        for name, vectors in unread.items() if len(canvas.rows) else ():
            tensor = canvas(part, name)
            for column in range(tensor.shape[3]):
                tensor[start : start + len(vectors), :, :, column] = vectors
                start += len(vectors)
        return canvas.rows

    return _piece(spec, *UNREAD, i, build)


def _annihilators(w: ModularWeights, columns: Array) -> Array:
    """Forms on the inner space of the heads that vanish on given columns: (n, heads, dv).

    Head by head; but where scores are silent, the heads' inner spaces are one space.
    """
    heads, dv, _ = columns.shape
    if silent(w.stack):
        joint = columns.reshape(heads * dv, -1)
        return annihilator(w.field, joint.T).reshape(-1, heads, dv)
    return _in_each_head([annihilator(w.field, one.T) for one in columns])


def _silent_scores(spec: Network, i: int) -> Piece:
    """The scores have no effect: K and Q are free."""
    part = str(i + 1)

    def build(w: ModularWeights) -> Array:
        sizes = [w(part, name).size for name in ("W_K", "W_Q")]
        canvas = w.canvas(sum(sizes))
        for name, start in (("W_K", 0), ("W_Q", sizes[0])):
            tensor = canvas(part, name).reshape(len(canvas.rows), -1)
            at = range(tensor.shape[1])
            tensor[range(start, start + len(at)), at] = 1
        return canvas.rows

    return _piece(spec, "silent-scores", "scores of a single token", i, build)


def _pooled_heads(spec: Network, i: int) -> Piece:
    """The scores have no effect: only the sum of the value maps of heads matters."""
    head, part = spec.layers[i], str(i + 1)
    if head.dv is None:
        return _piece(spec, *POOLED, i, lambda w: _pooled(w, part))
    inner = head.heads * head.dv

    def build(w: ModularWeights) -> Array:
        out = w(part, "W_O")
        rows, columns = w(part, "W_V").shape[1:]
        V = w(part, "W_V").reshape(inner, columns)
        canvas = w.canvas(inner * inner)
        dV = canvas(part, "W_V").reshape(-1, inner, columns)
        dO = canvas(part, "W_O")
        for j in range(inner):
            for k in range(inner):
                dV[j * inner + k, j] = V[k]
                dO[j * inner + k, k // rows, :, k % rows] = -out[j // rows, :, j % rows]
        return canvas.rows

    name = f"value-output basis of all heads GL({inner})"
    return _piece(spec, "pooled-heads", name, i, build)


def _pooled(w: ModularWeights, part: str) -> Array:
    heads, rows, columns = w(part, "W_V").shape
    size = rows * columns
    canvas = w.canvas((heads - 1) * size)
    own = canvas(part, "W_V").reshape(-1, heads, size)
    for h in range(1, heads):
        at = range((h - 1) * size, h * size)
        own[at, h, range(size)] = 1
        own[at, 0, range(size)] = -1
    return canvas.rows


def _heads_mix(spec: Network, i: int, arrives: int, parallel: bool) -> bool:
    head = spec.layers[i]
    enough = arrives <= (2 * head.a if parallel else head.a)
    return spec.mechanism.bilinear and head.heads > 1 and head.dv is None and enough


def bilinear_heads(w: ModularWeights, i: int) -> BilinearHeads:
    """The heads of a layer whose pattern is the scores."""
    K, Q, V = (w(str(i + 1), name) for name in ("W_K", "W_Q", "W_V"))
    return BilinearHeads(w.field, K, Q, V, w.passage.images[i])


def drawn_on(w: ModularWeights, i: int, tangents: Iterable[Tangents]) -> Array:
    """Tangents of the keys, queries and values of a layer, as those of all weights."""
    found = list(tangents)
    canvas = w.canvas(len(found))
    for n, changes in enumerate(found):
        for name, change in zip(("W_K", "W_Q", "W_V"), changes, strict=True):
            canvas(str(i + 1), name)[n] = change
    return canvas.rows


def _mix_heads(spec: Network, i: int, parallel: bool) -> Piece:
    """Heads of full rank whose pattern is the scores: GL(heads) acts."""

    def build(w: ModularWeights) -> Array:
        return drawn_on(w, i, bilinear_heads(w, i).of_full_rank(parallel))

    heads = spec.layers[i].heads
    return _piece(spec, "mix-heads", f"mixing of heads GL({heads})", i, build)


def _outside(field: Prime, basis: Array) -> Array:
    """The annihilator of a basis: nothing, if it spans everything."""
    rows, columns = basis.shape
    return np.zeros((0, columns)) if rows == columns else annihilator(field, basis)


def _in_each_head(vectors: list[Array]) -> Array:
    """Vectors of the heads' own spaces as vectors of all heads, zero in the others."""
    heads = len(vectors)
    out = np.zeros((sum(map(len, vectors)), heads, vectors[0].shape[1]))
    start = 0
    for h, own in enumerate(vectors):
        out[start : start + len(own), h] = own
        start += len(own)
    return out
