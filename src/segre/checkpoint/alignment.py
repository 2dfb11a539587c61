"""Orthogonal matrices and permutations that act on reduced weights: of stream, heads and units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from segre.checkpoint.experts import reordered
from segre.checkpoint.flips import NORMED, SUBLAYERS, Flips, flip
from segre.checkpoint.latents import LatentTurn
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import keys, queries, set_still, still, turned, turning
from segre.checkpoint.sizes import row_blocks
from segre.checkpoint.units import SHARED, UNITS, ordered
from segre.fields.interface import Array
from segre.symmetry.wiring import stream_readers, stream_writers
from segre.transformer.spec import Transformer

Freedom = Literal["none", "order and sign", "order and signs", "orthogonal"]


def stream_freedom(spec: Transformer) -> Freedom:
    """What is free in the basis of the stream, once gains that can be absorbed are.

    Gains that stay (before a tied table, after a LayerNorm on the stream) fix the axes; hidden
    states as the output fix everything.
    """
    if spec.output == "hidden":
        return "none"
    if spec.place == "pre" and not spec.tied:
        return "orthogonal"
    return "order and signs" if spec.norm == "rms" else "order and sign"


def embedding_freedom(spec: Transformer) -> Freedom:
    """Likewise for embeddings of another width, whose norm has its gain absorbed by their map."""
    if not spec.embed:
        return "none"
    return "order and sign" if spec.tied else "orthogonal"


def free_pooler(spec: Transformer) -> bool:
    """Whether the units of a pooler have free order and signs: only labels read them."""
    return spec.pooler and spec.output != "hidden"


@dataclass
class StreamAlignment:
    """A change of basis of the stream: a signed permutation, or an orthogonal matrix."""

    order: Array | None = None  # new coordinate i is the old order[i] ...
    signs: Array | None = None  # ... times signs[i]
    matrix: Array | None = None
    transform: Array | None = None  # order of the units of an untied transform
    embed: StreamAlignment | None = None  # of embeddings of another width
    pooled: Array | None = None  # order of the units of a pooler that labels read ...
    pooled_signs: Array | None = None  # ... and their signs

    @classmethod
    def identity(cls, spec: Transformer) -> StreamAlignment:
        """The turn that changes nothing."""
        out = cls._free(stream_freedom(spec), spec.d)
        if spec.embed:
            out.embed = cls._free(embedding_freedom(spec), spec.embed)
        return out

    @classmethod
    def _free(cls, freedom: Freedom, width: int) -> StreamAlignment:
        if freedom == "none":
            return cls()
        if freedom == "orthogonal":
            return cls(matrix=np.eye(width))
        return cls(np.arange(width), np.ones(width))

    def write(self, W: Array) -> Array:
        """Act on what is written to the stream: (..., d, n)."""
        if self.matrix is not None:
            return W if self._still() else self.matrix @ W
        if self.order is None:
            return W
        assert self.signs is not None
        if self._still():
            return W
        across = W.ndim == 2 and W.flags.f_contiguous  # a table, whose rows are columns
        out = np.take(W.T, self.order, axis=1).T if across else np.take(W, self.order, axis=-2)
        if (self.signs != 1).any():
            out *= self.signs[:, None]
        return out

    def _reorder(self, W: Array) -> bool:
        """Act on a table whose columns lie together, in place; whether that can be done."""
        if self.order is None or not (W.flags.f_contiguous and W.flags.writeable):
            return False
        assert self.signs is not None
        if not self._still():
            for start, stop in row_blocks(W.shape[1], W.size):
                W.T[start:stop] = np.take(W.T[start:stop], self.order, axis=1) * self.signs
        return True

    def read(self, W: Array) -> Array:
        """Act on what reads the stream: (..., n, d)."""
        if self.matrix is not None:
            return W if self._still() else W @ self.matrix.T
        if self.order is None:
            return W
        assert self.signs is not None
        if self._still():
            return W
        out = np.take(W, self.order, axis=-1)
        if (self.signs != 1).any():
            out *= self.signs
        return out

    @property
    def keeps_axes(self) -> bool:
        """Whether every coordinate of the stream stays in its place, up to its sign."""
        order, matrix = self.order, self.matrix
        moved = order is not None and (order != np.arange(len(order))).any()
        return not moved and (matrix is None or not (matrix - np.diag(np.diag(matrix))).any())

    def _still(self) -> bool:
        """Whether it changes nothing: tables are large, and need no copies."""
        if self.matrix is not None:
            return np.array_equal(self.matrix, np.eye(len(self.matrix)))
        assert self.order is not None
        assert self.signs is not None
        return bool((self.order == np.arange(len(self.order))).all() and (self.signs == 1).all())

    def gain(self, gain: Array) -> Array:
        """Act on gains along the stream."""
        return gain if self.order is None else gain[self.order]

    def after(self, first: StreamAlignment) -> StreamAlignment:
        """First another turn, then this one; of embeddings of another width, the first alone."""
        if self.matrix is not None:
            return StreamAlignment(matrix=self.matrix @ first.matrix)
        if self.order is None:
            return first
        assert self.signs is not None
        assert first.order is not None
        assert first.signs is not None
        order, signs = first.order[self.order], first.signs[self.order] * self.signs
        return StreamAlignment(order, signs, embed=first.embed)

    def apply(self, spec: Transformer, part: str, w: Tensors, *, own: bool = False) -> None:
        """Act on the tensors of a part, in place.

        If the arrays are the caller's `own`, numbers of tables are changed where they are.
        """
        tables = self.embed or self
        for name in w:
            if name in ("tokens", "positions", "types"):
                if not (own and tables._reorder(w[name])):
                    w[name] = tables.write(w[name])
            elif name == "W_E":
                w[name] = tables.read(self.write(w[name]))
            elif name in stream_writers(spec):
                w[name] = self.write(w[name])
            elif name in stream_readers(spec):
                w[name] = self.read(w[name])
            elif part == "embed" and spec.embed:
                continue  # a norm without gain and bias
            elif name.startswith(("norm.", "norm1.", "norm2.", "post")) and self.matrix is None:
                ending = name.split(".")[1]
                w[name] = self.gain(w[name]) if ending == "gain" else self.write(w[name])
        if part == "head" and spec.transform:
            self._transform(spec, w)
        if part == "head" and self.pooled is not None:
            self._pooled(w)

    def _pooled(self, w: Tensors) -> None:
        """The units between the stream and labels; tanh is odd."""
        assert self.pooled_signs is not None
        for name in ("W_pool", "b_pool"):
            w[name] = w[name][self.pooled] * self.pooled_signs[:, None]
        reader = "W_rel" if "W_rel" in w else "W_U"
        w[reader] = w[reader][:, self.pooled] * self.pooled_signs

    def _transform(self, spec: Transformer, w: Tensors) -> None:
        """The units between the stream and a tied table have the order of the table's rows."""
        basis = self.embed or self
        order = basis.order if spec.tied else self.transform
        if order is None:
            return
        for name in ("W_T", "b_T", "normT.gain", "normT.bias"):
            if name in w:
                w[name] = w[name][order]
                if name.startswith("normT") and spec.tied and basis.signs is not None:
                    w[name] = w[name] * basis.signs[:, None]
        if "W_U" in w:
            w["W_U"] = w["W_U"][:, order]


@dataclass
class LayerAlignment:
    """A change of basis and order of the heads and units of a layer."""

    heads: Array  # (kv,): new key-value head i is the old heads[i]
    queries: Array  # (kv, group): likewise for the query heads of each
    vo: Array  # (kv, v, v), orthogonal
    planes: Array | None = None  # (kv, planes), complex of modulus 1: of what turns
    basis: Array | None = None  # (kv, s, s), orthogonal: of the s dimensions that do not turn
    units: Array | None = None  # (ff,), or (experts, eff)
    signs: Array | None = None  # likewise
    experts: Array | None = None  # (experts,): of these the units, as they come to lie
    shared: Array | None = None  # (shared,): units of shared experts
    shared_signs: Array | None = None
    latents: LatentTurn | None = None
    flips: Flips = field(default_factory=dict)  # of rows whose gain nearly vanishes

    @classmethod
    def identity(cls, spec: Transformer, *, routed: bool = False) -> LayerAlignment:
        """The turn that changes nothing, of a layer with experts or without."""
        return cls(
            np.arange(spec.kv),
            np.tile(np.arange(spec.group), (spec.kv, 1)),
            np.tile(np.eye(spec.dv), (spec.kv, 1, 1)),
            np.ones((spec.kv, turning(spec) // 2), complex) if turning(spec) else None,
            np.tile(np.eye(spec.still), (spec.kv, 1, 1)) if spec.still else None,
            **cls._still(spec, routed),
            latents=LatentTurn.identity(spec) if spec.latent else None,
        )

    @staticmethod
    def _still(spec: Transformer, routed: bool) -> dict[str, Any]:
        """Units and experts in their stored order."""
        if not routed:
            units = {"units": np.arange(spec.ff), "signs": np.ones(spec.ff)}
            return units if spec.mlp != "none" else {}
        out = {
            "units": np.tile(np.arange(spec.eff), (spec.experts, 1)),
            "signs": np.ones((spec.experts, spec.eff)),
            "experts": np.arange(spec.experts),
        }
        if spec.shared:
            out |= {"shared": np.arange(spec.shared), "shared_signs": np.ones(spec.shared)}
        return out

    def apply(self, spec: Transformer, w: Tensors) -> None:
        """Act on the tensors of a layer, in place: first the order, then the bases."""
        for norm in SUBLAYERS:
            if norm in self.flips:
                flip(spec, w, norm, self.flips[norm])
        if self.latents is not None:
            self.latents.apply(spec, w)
        own = spec.qknorm == "all"  # every head has gains of its own
        for name in ("W_Q", "b_Q", "R_Q", "sinks", "W_O", *["normq.gain"] * own):
            if name in w:
                w[name] = w[name][self.heads[:, None], self.queries]
        for name in ("W_K", "b_K", "W_V", "b_V", *["normk.gain"] * own):
            if name in w:
                w[name] = w[name][self.heads]
        vo = self.vo[:, None]
        w["W_V"] = vo @ w["W_V"]
        w["W_O"] = w["W_O"] @ vo.swapaxes(-1, -2)
        if "b_V" in w:
            w["b_V"] = vo @ w["b_V"]
        for norm in NORMED:
            if norm in self.flips:
                flip(spec, w, norm, self.flips[norm])
        if self.planes is not None:
            turned(spec, w, self.planes)
        if self.basis is not None:
            by = self.basis[:, None]
            set_still(spec, w, by @ still(spec, queries(w)), by @ still(spec, keys(w)))
        if self.experts is not None:
            reordered(w, self.experts)
        if self.units is not None:
            assert self.signs is not None
            ordered(w, UNITS, self.units, self.signs)
        if self.shared is not None:
            assert self.shared_signs is not None
            ordered(w, SHARED, self.shared, self.shared_signs)
