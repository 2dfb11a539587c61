"""Symmetries of embeddings that are mapped to the stream, and of outputs that are mapped back."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.transformer.spec import Transformer

_IN = ("embed", "tokens"), ("embed", "W_E")


def projection_pieces(spec: Transformer) -> Iterator[Piece]:
    """The basis of the embeddings; where the output has a table of its own, that of its side too.

    A tied table is in both: tokens A, W_E A^-1 and A^-T W_D.
    """
    back = [("head", "W_D")] if spec.tied else []
    yield _basis(spec, "embeddings", "embedding", [_IN[0]], [_IN[1]], back)
    if not spec.tied and spec.output != "hidden":
        sides = [("head", "W_D")], [("head", "W_U")]
        yield _basis(spec, "outputs before their table", "head", *sides, [])


def _basis(
    spec: Transformer,
    what: str,
    where: str,
    written: list[tuple[str, str]],
    read: list[tuple[str, str]],
    dual: list[tuple[str, str]],
) -> Piece:
    e = spec.embed

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(e * e)
        for j in range(e):
            for k in range(e):
                row = j * e + k
                for tensor in written:
                    canvas(*tensor)[row, j] = w(*tensor)[k]
                for tensor in read:
                    canvas(*tensor)[row, :, k] = -w(*tensor)[:, j]
                for tensor in dual:
                    canvas(*tensor)[row, k] = -w(*tensor)[j]
        return canvas.rows

    name = f"basis GL({e}) of the {what}"
    return Piece("embedding-basis", name, where, "residual", "exact", e * e, build)
