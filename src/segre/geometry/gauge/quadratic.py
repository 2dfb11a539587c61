"""Symmetries of bilinear MLPs that have more weights than there are quadratic maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.unreached import Span, read_dimension, read_span
from segre.geometry.gauge.wiring import expert_layer, has, where
from segre.transformer.spec import Transformer

Block = tuple[int, ...]  # of an expert's tensors: its number


def quadratic_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The pieces of one MLP: one for its units, or one for those of each expert."""
    if spec.mlp != "bilinear" or spec.expbias:
        return
    if not expert_layer(spec, part):
        yield from _piece(spec, part, "W", (), spec.ff)
        return
    for expert in range(spec.experts):
        yield from _piece(spec, part, "W", (expert,), spec.eff)
    if spec.shared:
        yield from _piece(spec, part, "S", (), spec.shared)


def _piece(spec: Transformer, part: str, letter: str, block: Block, units: int) -> Iterator[Piece]:
    """Changes that keep all coefficients of the quadratic map, if all maps are reached."""
    end, d = (part, "mlp"), spec.d
    biased = letter == "W" and has(spec, part, "b_gate")
    least = read_dimension(spec, end)
    if d * least * (least + 1) // 2 >= units * (3 * d + 2 * biased) + d * biased:
        return
    names = [[f"{letter}_{side}", *[f"b_{side}"] * biased] for side in ("gate", "up")]

    def build(w: ModularWeights) -> Array:
        F = w.field
        onto = values_on(read_span(w, end), biased)
        gate, up = (
            F.matmul(np.concatenate([w(part, n)[block] for n in own], axis=1), onto)
            for own in names
        )
        table = derivatives(F, onto, gate, up, w(part, f"{letter}_down")[block])
        if biased:  # the bias of what is written is the coefficient of 1, the last pair
            constants = np.zeros((d, d, table.shape[1] // d))
            constants[range(d), range(d), -1] = 1
            table = np.concatenate([table, constants.reshape(d, -1)])
        space = Echelon(len(table), F)
        space.add(np.ascontiguousarray(table.T))
        if space.rank < table.shape[1]:
            return np.zeros((0, spec.parameters))
        kernel = F.reduce(space.kernel())
        canvas, inner = w.canvas(len(kernel)), units * len(onto)

        def write(name: str, found: Array) -> None:
            own = canvas(part, name)
            (own[:, block[0]] if block else own)[...] = found

        for side, own in enumerate(names):
            found = kernel[:, side * inner : (side + 1) * inner].reshape(-1, units, len(onto))
            write(own[0], found[:, :, :d])
            if biased:
                write(own[1], found[:, :, d:])
        write(f"{letter}_down", kernel[:, 2 * inner :][:, : d * units].reshape(-1, d, units))
        if biased:
            write("b_down", kernel[:, -d:, None])
        return canvas.rows

    name = "units of a bilinear MLP that has more weights than there are quadratic maps"
    yield Piece("quadratic", name, where(spec, part), "MLP", "exact", 0, build)


def values_on(span: Span, biased: bool) -> Array:
    """The map from a row [W, b] to its values on the span: on its columns, and its constant."""
    if not biased:
        return span.whole
    d, columns = span.columns.shape
    out = np.zeros((d + 1, columns + 1))
    out[:d, :columns], out[d, columns] = span.columns, 1
    if span.constant.shape[1]:
        out[:d, columns] = span.constant[:, 0]
    return out


def derivatives(F: Prime, onto: Array, gate: Array, up: Array, down: Array) -> Array:
    """Of all coefficients (output, pair), by the entries of gate, up and down, row by row."""
    (d, units), pairs = down.shape, np.triu_indices(gate.shape[1])
    rows = []
    for other in (up, gate):
        for unit in range(units):
            forms = _products(F, onto, other[unit], pairs)
            rows.append(F.mul(down[None, :, unit, None], forms[:, None]).reshape(len(onto), -1))
    squares = np.concatenate([_products(F, gate[[n]], up[n], pairs) for n in range(units)])
    for output in range(d):
        own = np.zeros((units, d, squares.shape[1]))
        own[:, output] = squares
        rows.append(own.reshape(units, -1))
    return np.concatenate(rows)


def _products(F: Prime, lines: Array, other: Array, pairs: tuple[Array, Array]) -> Array:
    """The coefficients of the products of linear forms (rows) with another one."""
    i, j = pairs
    return F.reduce(lines[:, i] * other[j] + np.where(i == j, 0, lines[:, j] * other[i]))
