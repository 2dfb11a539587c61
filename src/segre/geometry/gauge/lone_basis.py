"""Symmetries of a single token without norms: attention is linear, and the basis changes there.

Softmax gives a lone token the weight 1, so that attention is x -> M x + c with M = 1 + W_O W_V.
The stream before it may have one basis, the stream after it another, if M in the two bases is again
1 plus a matrix of the rank of W_O W_V.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.geometry.gauge.head_mixing import inverse
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import has, readers, writer_bias, writers
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer


def lone_basis_pieces(spec: Transformer) -> Iterator[Piece]:
    """One piece for the bases of all stretches of the stream."""
    if spec.t > 1 or not spec.sums_to_one or spec.norm != "none" or not spec.residual:
        return
    if spec.gate != "none":
        return
    if spec.latent or spec.parallel or spec.embed or spec.transform or spec.pooler or spec.patch:
        return
    if spec.layerscale or (spec.share and spec.layers > 1) or spec.labels:
        return
    if spec.layers > 1 or spec.discrete:
        yield _piece(spec)


def _free(spec: Transformer) -> list[int]:
    """The stretches with a separate basis: 0 before attention, i after the i-th."""
    first, last = int(not spec.discrete), spec.layers
    return list(range(first, last if spec.tied or spec.output == "hidden" else last + 1))


def _attention(w: ModularWeights, layer: int) -> tuple[Array, Array]:
    """O and V of the linear map x -> O V (x, 1): all heads side by side, the bias as a column."""
    spec, part = w.transformer, str(layer)
    out = w.field.reduce(w(part, "W_O").sum(axis=1))
    O = np.moveaxis(out, 1, 0).reshape(spec.d, -1)  # noqa: E741
    V = w(part, "W_V").reshape(-1, spec.d)
    if has(spec, part, "b_V") and not has(spec, part, "b_O"):
        V = np.concatenate([V, w(part, "b_V").reshape(-1, 1)], axis=1)
    return O, V


def _moved(w: ModularWeights, layer: int, bases: dict[int, Array]) -> Array:
    """By what O V must change: X' (M, c) - (M X, 0), with X before and X' after attention."""
    F, d = w.field, w.transformer.d
    O, V = _attention(w, layer)  # noqa: E741
    whole = F.add(F.matmul(O, V), np.eye(d, V.shape[1]))
    before, after = (bases.get(i, np.zeros((d, d))) for i in (layer - 1, layer))
    lifted = np.zeros((V.shape[1], V.shape[1]))
    lifted[:d, :d] = before
    return F.sub(F.matmul(after, whole), F.matmul(whole, lifted))


def _bases(spec: Transformer, stretch: int, X: Array) -> dict[int, Array]:
    """A basis change of one stretch; a tied table changes the last one too."""
    found = {stretch: X}
    if spec.tied and stretch == 0:
        found[spec.layers] = -X.T
    return found


def _piece(spec: Transformer) -> Piece:
    d = spec.d
    units = [(stretch, j, k) for stretch in _free(spec) for j in range(d) for k in range(d)]

    def unknown(stretch: int, j: int, k: int) -> dict[int, Array]:
        X = np.zeros((d, d))
        X[j, k] = 1
        return _bases(spec, stretch, X)

    def build(w: ModularWeights) -> Array:
        F = w.field
        if not units:
            return np.zeros((0, spec.parameters))
        space = Echelon(len(units), F)
        for layer in range(1, spec.layers + 1):
            O, V = _attention(w, layer)  # noqa: E741
            if len(V) >= d:
                continue
            left, right = annihilator(F, O.T.copy()), annihilator(F, V)
            seen = [
                F.matmul(F.matmul(left, _moved(w, layer, unknown(*own))), right.T).ravel()
                for own in units
            ]
            table = np.ascontiguousarray(np.stack(seen, axis=1))
            if space.add(table) < len(table):
                return np.zeros((0, spec.parameters))
        kernel = F.reduce(space.kernel()).reshape(-1, len(units) // (d * d), d, d)
        canvas = w.canvas(len(kernel))
        for row, found in enumerate(kernel):
            bases: dict[int, Array] = {}
            for stretch, X in zip(_free(spec), found, strict=True):
                bases |= _bases(spec, stretch, X)
            for key, tangent in _tangent(w, bases).items():
                canvas(*key)[row] = tangent
        return F.reduce(canvas.rows)

    name = "bases of the stream before and after attention to a single token"
    return Piece("lone-basis", name, "residual stream", "residual", "exact", 0, build)


def _tangent(w: ModularWeights, bases: dict[int, Array]) -> dict[tuple[str, str], Array]:
    F, spec, out = w.field, w.transformer, {}
    d, none = spec.d, np.zeros((spec.d, spec.d))
    for name in writers(spec, ("embed", "")) if spec.discrete else []:
        out["embed", name] = F.matmul(bases.get(0, none), w("embed", name))
    for layer in range(1, spec.layers + 1):
        part, X, Y = str(layer), bases.get(layer, none), _moved(w, layer, bases)
        O, V = _attention(w, layer)  # noqa: E741
        dO, dV = _factored(F, Y, O, V)
        full = np.zeros_like(w(part, "W_O"))
        full[:, 0] = np.moveaxis(dO.reshape(d, spec.kv, spec.dv), 1, 0)
        out[part, "W_O"] = full
        out[part, "W_V"] = dV[:, :d].reshape(w(part, "W_V").shape)
        if V.shape[1] > d:
            out[part, "b_V"] = dV[:, d:].reshape(w(part, "b_V").shape)
        elif has(spec, part, "b_O"):
            values = w(part, "b_V").reshape(-1, 1)
            constant = F.add(F.matmul(O, values), w(part, "b_O"))
            out[part, "b_O"] = F.sub(F.matmul(X, constant), F.matmul(dO, values))
        if spec.mlp != "none":
            end = (part, "mlp")
            bias = writer_bias(spec, end)
            for name in [*writers(spec, end), *([bias] if bias else [])]:
                out[part, name] = F.matmul(X, w(part, name))
            for reader in readers(spec, end):
                out[part, reader.weight] = -F.matmul(w(part, reader.weight), X)
    if spec.output != "hidden" and not spec.tied:
        out["head", "W_U"] = -F.matmul(w("head", "W_U"), bases.get(spec.layers, none))
    return out


def _factored(F: Prime, Y: Array, O: Array, V: Array) -> tuple[Array, Array]:  # noqa: E741
    """dO and dV with dO V + O dV = Y."""
    d, inner = O.shape
    if inner >= d:
        dV = np.zeros_like(V)
        dV[:d] = F.matmul(inverse(F, O[:, :d]), Y)
        return np.zeros_like(O), dV
    dV = F.matmul(inverse(F, O[:inner]), Y[:inner])
    rest = F.sub(Y, F.matmul(O, dV))
    return F.matmul(rest[:, :inner], inverse(F, V[:, :inner])), dV
