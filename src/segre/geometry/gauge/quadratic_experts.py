"""Symmetries of bilinear experts beside shared units: a quadratic map moves from one to the others.

The shares of a token's experts add up to one, so that what is added to all experts may be taken
off the shared units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.fields.rank import Echelon
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.quadratic import derivatives
from segre.geometry.gauge.unreached import read_dimension, read_span
from segre.geometry.gauge.wiring import expert_layer, where
from segre.transformer.spec import Transformer

_SIDES = ("gate", "up", "down")


def quadratic_expert_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The piece of one layer, if there may be more weights than coefficients."""
    if spec.mlp != "bilinear" or spec.expbias or not expert_layer(spec, part) or not spec.shared:
        return
    if spec.router not in ("sigmoid", "softmax") or spec.sharedgate:
        return
    n = read_dimension(spec, (part, "mlp"))
    weights = 3 * spec.d * (spec.experts * spec.eff + spec.shared)
    if spec.experts * spec.d * n * (n + 1) // 2 < weights:
        yield _piece(spec, part)


def _piece(spec: Transformer, part: str) -> Piece:
    d, experts = spec.d, spec.experts

    def own(w: ModularWeights, onto: Array, letter: str, block: tuple[int, ...]) -> Array:
        """Derivatives of all coefficients, by the entries of gate, up and down."""
        gate, up, down = (w(part, f"{letter}_{side}")[block] for side in _SIDES)
        F = w.field
        return derivatives(F, onto, F.matmul(gate, onto), F.matmul(up, onto), down)

    def build(w: ModularWeights) -> Array:
        F, onto = w.field, read_span(w, (part, "mlp")).whole
        shared = own(w, onto, "S", ())
        each = [own(w, onto, "W", (j,)) for j in range(experts)]
        count, coefficients = len(each[0]), shared.shape[1]
        table = np.zeros((experts * count + len(shared), experts, coefficients))
        for j, block in enumerate(each):
            table[j * count : (j + 1) * count, j] = block
        table[experts * count :] = shared[:, None]
        flat = table.reshape(len(table), -1)
        space = Echelon(len(flat), F)
        space.add(np.ascontiguousarray(flat.T))
        if space.rank < flat.shape[1]:
            return np.zeros((0, spec.parameters))
        kernel = F.reduce(space.kernel())
        canvas = w.canvas(len(kernel))
        start = 0
        for letter, blocks, units in (("W", experts, spec.eff), ("S", 0, spec.shared)):
            for j in range(max(1, blocks)):
                for side in _SIDES:
                    shape = (len(kernel), d, units) if side == "down" else (len(kernel), units, d)
                    found = kernel[:, start : start + d * units].reshape(shape)
                    view = canvas(part, f"{letter}_{side}")
                    (view[:, j] if blocks else view)[...] = found
                    start += d * units
        return canvas.rows

    name = "quadratic maps from the shared units of a bilinear MLP to all its experts"
    return Piece("quadratic-experts", name, where(spec, part), "MLP", "exact", 0, build)
