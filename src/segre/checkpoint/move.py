"""A random point of the fiber of a checkpoint: all free choices drawn, with bounded conditions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.checkpoint.alignment import (
    Freedom,
    LayerAlignment,
    StreamAlignment,
    embedding_freedom,
    free_pooler,
    stream_freedom,
)
from segre.checkpoint.experts import RouterGauge, joined
from segre.checkpoint.frame import centred_basis
from segre.checkpoint.heads import HeadGauge
from segre.checkpoint.latents import LatentTurn
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.norm_gauge import NormGauge
from segre.checkpoint.planes import free_planes, turning
from segre.checkpoint.reduce import GaugeChoice, Restore, reduced
from segre.checkpoint.tables import PLACED
from segre.checkpoint.units import DEGREE, scaled, signed
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

SPREAD = 0.7  # factors lie between exp(-SPREAD) and exp(SPREAD)


def moved_parts(model: Model, seed: int) -> Iterator[tuple[str, Tensors]]:
    """The parts of a checkpoint at a random point of its fiber."""
    spec, draw = model.spec, Draw(seed)
    stream = draw.stream(spec)
    restore = Restore(spec, stream)
    for found in reduced(model):
        w, own = found.tensors, spec.at(found.part)
        stream.apply(spec, found.part, w)
        if found.part not in ("embed", "head"):
            draw.layer(own, w).apply(own, w)
        restore.part(found, draw.choice(own, w, found.choice))
        yield found.part, w


class Draw:
    """Random choices."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.stream_signs = np.random.default_rng([seed, 1])  # for the signs that norms wear

    def factors(self, shape: int | tuple[int, ...]) -> Array:
        """Positive factors."""
        return np.exp(self.rng.uniform(-SPREAD, SPREAD, shape))

    def signs(self, shape: int | tuple[int, ...]) -> Array:
        """Signs."""
        return self.rng.choice([-1.0, 1.0], shape)

    def orthogonal(self, count: int, n: int) -> Array:
        """Orthogonal matrices (count, n, n), evenly distributed."""
        q, r = np.linalg.qr(self.rng.standard_normal((count, n, n)))
        return np.asarray(q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None])

    def invertible(self, count: int, n: int) -> Array:
        """Invertible matrices (count, n, n) with condition number at most exp(2 SPREAD)."""
        scaled = self.orthogonal(count, n) * self.factors((count, 1, n))
        return scaled @ self.orthogonal(count, n)

    def stream(self, spec: Transformer) -> StreamAlignment:
        """A basis of the stream, of those that are free."""
        transform = None
        if spec.transform and not spec.tied:
            transform = self.rng.permutation(spec.head_width)
        out = self.basis(stream_freedom(spec), spec.d, spec.norm == "layer")
        out.transform = transform
        if spec.embed:
            out.embed = self.basis(embedding_freedom(spec), spec.embed, spec.norm == "layer")
        if free_pooler(spec):
            out.pooled, out.pooled_signs = self.rng.permutation(spec.d), self.signs(spec.d)
        return out

    def basis(self, freedom: Freedom, width: int, centred: bool) -> StreamAlignment:
        """A basis, of those that are free."""
        if freedom == "none":
            return StreamAlignment()
        if freedom == "orthogonal":
            if not centred:
                return StreamAlignment(matrix=self.orthogonal(1, width)[0])
            basis = centred_basis(width)
            return StreamAlignment(
                matrix=basis @ self.orthogonal(1, width - 1)[0] @ basis.T + 1 / width
            )
        signs = self.signs(width if freedom == "order and signs" else 1)
        return StreamAlignment(self.rng.permutation(width), np.broadcast_to(signs, width).copy())

    def layer(self, spec: Transformer, w: Tensors) -> LayerAlignment:
        """An order and bases of heads and units."""
        out = LayerAlignment.identity(spec, routed="W_R" in w)
        out.heads = self.rng.permutation(spec.kv)
        out.queries = self.rng.permuted(out.queries, axis=1)
        out.vo = self.orthogonal(spec.kv, spec.dv)
        if turning(spec):
            shape = (spec.kv, turning(spec) // 2)
            out.planes = np.exp(1j * self.rng.uniform(0, 2 * np.pi, shape))
            if spec.qknorm:
                free = free_planes(spec, w)
                free = free[out.heads] if free.ndim == 2 else free  # heads are put in order first
                out.planes = np.where(free, out.planes, self.signs(shape))
        if spec.still:
            out.basis = self.orthogonal(spec.kv, spec.still)
        if out.latents is not None:
            out.latents = self.latents(spec)
        if out.experts is not None:
            shape = (spec.groups or 1, spec.experts // (spec.groups or 1))
            within = self.rng.permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)
            out.experts = joined(self.rng.permutation(shape[0]), within)
        if out.units is not None:
            out.units, out.signs = self.units(spec, out.units)
        if out.shared is not None:
            out.shared, out.shared_signs = self.units(spec, out.shared)
        return out

    def latents(self, spec: Transformer) -> LatentTurn:
        """Bases of latents, and phases of the rotary key."""
        out = LatentTurn(self.orthogonal(1, spec.kvrank)[0])
        if spec.qrank:
            out.queries = self.orthogonal(1, spec.qrank)[0]
        if spec.rotary_dim:
            out.planes = np.exp(1j * self.rng.uniform(0, 2 * np.pi, spec.rotary_dim // 2))
        return out

    def units(self, spec: Transformer, still: Array) -> tuple[Array, Array]:
        """An order of units, and their signs."""
        order = self.rng.permuted(still, axis=-1)
        return order, self.signs(still.shape) if signed(spec) else np.ones(still.shape)

    def choice(self, spec: Transformer, w: Tensors, like: GaugeChoice) -> GaugeChoice:
        """Choices of the kinds that `like` has; sizes in proportion to the weights."""
        out = GaugeChoice(self.norm_gauge(w, like.norms))
        out.signs = {
            norm: self.stream_signs.choice([-1.0, 1.0], sign.shape)
            for norm, sign in like.signs.items()
        }
        if like.heads is not None:
            out.heads = self.heads(spec, like.heads)
        if like.latents is not None:
            out.latents = self.factors(like.latents.shape).astype(complex)
        if like.units is not None:
            out.units = self.factors(like.units.shape) ** (1 / DEGREE.get(spec.mlp, 1))
        if like.shared is not None:
            out.shared = self.factors(like.shared.shape)
        if like.router is not None:
            out.router = self.router(w, like.router)
        assert (out.units is not None) == (like.units is not None and scaled(spec))
        return out

    def norm_gauge(self, w: Tensors, like: NormGauge) -> NormGauge:
        """Gains, shifts, means and biases."""
        out = NormGauge()
        for norm, gain in like.gains.items():
            out.gains[norm] = self.factors(gain.shape) * self.signs(gain.shape)
        for name, scale in like.scales.items():
            out.scales[name] = self.factors(scale.shape) * self.signs(scale.shape)
        for norm, signs in like.signs.items():
            out.signs[norm] = self.signs(signs.shape)
        for norm, shift in like.shifts.items():
            out.shifts[norm] = self.rng.uniform(0.1, 0.3, shift.shape)
            if norm in out.gains:  # so that shift/gain does not cancel
                out.shifts[norm] *= np.sign(out.gains[norm])
        for name, read in like.reads.items():
            out.reads[name] = self.offsets(read.shape, w[name])
        for name, write in like.writes.items():
            out.writes[name] = self.offsets(write.shape, w[name])
        for name, outside in like.outside.items():
            out.outside[name] = self.offsets(outside.shape, w[name])
        for name, bias in like.biases.items():
            out.biases[name] = self.offsets(bias.shape, w[f"W_{name[-1]}"])
        for name, shift in like.tables.items():
            of = "positions" if name in ("unused", *PLACED) else name
            out.tables[name] = self.offsets(shift.shape, w[of])
        return out

    def router(self, w: Tensors, like: RouterGauge) -> RouterGauge:
        """What all experts have in common."""
        out = RouterGauge()
        if like.shift is not None:
            out.shift = self.offsets(like.shift.shape, w["W_R"])
        if like.preference is not None:
            out.preference = self.offsets(like.preference.shape, w["b_R"])
        if like.bias is not None:
            out.bias = self.offsets(like.bias.shape, w["c_R"])
        return out

    def offsets(self, shape: tuple[int, ...], of: Array) -> Array:
        """Offsets of about the size of the entries of a tensor."""
        return self.rng.standard_normal(shape) * float(np.sqrt((of**2).mean()))

    def heads(self, spec: Transformer, like: HeadGauge) -> HeadGauge:
        """Factors of heads."""
        out = HeadGauge(self.invertible(spec.kv, spec.dv))
        if like.bias is not None:
            out.bias = self.rng.standard_normal(like.bias.shape) * np.abs(like.bias).max()
        if spec.qknorm:
            assert like.gains is not None
            assert like.signs is not None
            out.gains = self.factors(like.gains.shape)
            out.signs = (self.signs(like.signs[0].shape), self.signs(like.signs[1].shape))
            return out
        if turning(spec):
            out.planes = self.factors((spec.kv, turning(spec) // 2)).astype(complex)
        if spec.still:
            out.basis = self.invertible(spec.kv, spec.still)
        return out
