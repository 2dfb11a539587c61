"""Symmetries of latent attention beside those of its heads: of latents, and of the rotary key."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.turns import below_diagonal, gain_piece, turn_columns, turn_rows
from segre.geometry.gauge.wiring import Norm, norm_at
from segre.transformer.layers import plane_dimensions
from segre.transformer.spec import Transformer


def latent_pieces(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    """A normed latent: rotations and gains before its readers, and at eps = 0 its scale."""
    chosen = [("A_K", "normk", ["W_K", "W_V"], "key-value")]
    if spec.qrank:
        readers = ["W_Q", "R_Q"] if spec.rotary_dim else ["W_Q"]
        chosen.insert(0, ("A_Q", "normq", readers, "query"))
    for source, norm, readers, name in chosen:
        width = spec.kvrank if source == "A_K" else spec.qrank
        site = norm_at(spec, part, norm, width)
        yield _latent_turns(part, at, site, source, readers, name)
        if site.gain:
            yield gain_piece(part, at, site, [(part, r) for r in readers], f"{name} latent")
        if not spec.eps:

            def scale(w: ModularWeights, source: str = source) -> Array:
                canvas = w.canvas(1)
                canvas(part, source)[0] = w(part, source)
                return canvas.rows

            title = f"scale of the {name} latent"
            yield Piece("latent-scale", title, at, "QK", "eps=0", 1, scale)


def _latent_turns(
    part: str, at: str, site: Norm, source: str, readers: list[str], name: str
) -> Piece:
    n = site.width

    def build(w: ModularWeights) -> Array:
        pairs = below_diagonal(n)
        canvas = w.canvas(len(pairs))
        turn_rows(canvas, (part, source), w(part, source), pairs)
        for reader in readers:
            turn_columns(w, canvas, (part, reader), site, pairs)
        return w.field.reduce(canvas.rows)

    title = f"rotations O({n}) of the {name} latent"
    return Piece("latent-turns", title, at, "QK", "exact", n * (n - 1) // 2, build)


def latent_planes(spec: Transformer, part: str, w: ModularWeights) -> Array:
    """Per plane of the common rotary key, against the rotary queries of all heads."""
    first, second = plane_dimensions(spec)
    canvas = w.canvas(spec.rotary_dim)
    Q, K = w(part, "R_Q"), w(part, "R_K")
    dQ, dK = canvas(part, "R_Q"), canvas(part, "R_K")
    for n, (a, b) in enumerate(zip(first, second, strict=True)):
        for d in (a, b):
            dQ[2 * n, :, :, d], dK[2 * n, d] = Q[:, :, d], -K[d]
        dQ[2 * n + 1, :, :, a], dQ[2 * n + 1, :, :, b] = -Q[:, :, b], Q[:, :, a]
        dK[2 * n + 1, a], dK[2 * n + 1, b] = -K[b], K[a]
    return canvas.rows
