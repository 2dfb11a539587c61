"""Stacks of attention layers as data: weights in floats, run and recorded.

Here tokens are the ROWS of X, as in the papers on rank collapse (elsewhere in segre they are
columns). A layer is X -> [X +] sum_h P_h X W_V^h W_O^h + biases, then perhaps an MLP. What a
forward pass did is a `Pass`. All arrays may have more axes in front: batches.

>>> stack = FloatNetwork.random(layers=2, heads=3, d=6, seed=1)
>>> done = stack.forward(np.random.default_rng(0).standard_normal((5, 6)))
>>> done.layers[0].P.shape, bool(np.allclose(done.layers[0].P.sum(-1), 1))
((3, 5, 5), True)
>>> bool(np.allclose(done.replay()[-1], done.output))
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal

import numpy as np

from segre.collapse.activations import gate
from segre.collapse.passes import SAME, Affine, Pass, RecordedLayer, TokenMap
from segre.errors import SegreError, UnsupportedError
from segre.fields.interface import Array
from segre.network import layer_starts, unflatten
from segre.spec import Network
from segre.transformer.choices import GATED
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors
from segre.values import quote

Init = Literal["xavier", "bert"] | float


@dataclass(frozen=True)
class Heads:
    """The weights of one attention layer; scores are multiplied by `scale`."""

    W_Q: Array  # (H, d, k)
    W_K: Array  # (H, d, k)
    W_V: Array  # (H, d, v)
    W_O: Array  # (H, v, d)
    b_Q: Array | None = None  # (H, k)
    b_K: Array | None = None  # (H, k)
    b_V: Array | None = None  # (H, v)
    b_O: Array | None = None  # (d,)
    scale: float | None = None  # 1 / sqrt(k) unless given

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.W_Q.shape[-3])

    @property
    def factor(self) -> float:
        """What scores are multiplied by."""
        return float(self.W_Q.shape[-1] ** -0.5) if self.scale is None else self.scale

    def only(self, h: int) -> Heads:
        """One of the heads, counted from 1, and b_O."""
        own: dict[str, Any] = {}
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
            every = getattr(self, name)
            axis = -3 if name[0] == "W" else -2
            own[name] = None if every is None else np.take(every, [h - 1], axis=axis)
        return replace(self, **own)

    def patterns(self, X: Array, causal: bool = False) -> Array:
        """softmax of the scores of tokens X: (..., H, n, n), row = query."""
        tokens = X[..., None, :, :]
        Q, K = tokens @ self.W_Q, tokens @ self.W_K
        Q = Q if self.b_Q is None else Q + self.b_Q[..., None, :]
        K = K if self.b_K is None else K + self.b_K[..., None, :]
        scores = self.factor * Q @ np.swapaxes(K, -1, -2)
        if causal:
            scores = np.where(seen(X.shape[-2]), scores, -np.inf)
        grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Mlp:
    """x -> activation(x W_1 + b_1) W_2 + b_2, for every token."""

    W_1: Array  # (d, f)
    W_2: Array  # (f, d)
    b_1: Array | None = None  # (f,)
    b_2: Array | None = None  # (d,)
    activation: str = "gelu"

    def record(self, X: Array, skip: bool) -> TokenMap:
        """What it does to tokens X, with the gates fixed."""
        first = Affine(self.W_1, self.b_1)
        gates = gate(self.activation, first.apply(X))
        return TokenMap((replace(first, s=gates), Affine(self.W_2, self.b_2)), skip)


@dataclass(frozen=True)
class FloatNetwork:
    """Layers of heads, each perhaps with an MLP after it.

    `skip` adds the input to what the heads write; an MLP has a skip too, unless `mlp_skip` says
    otherwise.
    """

    layers: tuple[tuple[Heads, Mlp | None], ...]
    skip: bool = False
    causal: bool = False
    mlp_skip: bool | None = None

    @property
    def skips_mlp(self) -> bool:
        """Whether the input of an MLP is added to its output."""
        return self.skip if self.mlp_skip is None else self.mlp_skip

    def forward(self, X: Array) -> Pass:
        """Run tokens X (n, d) through all layers, and write down what each did."""
        tokens = np.asarray(X, dtype=np.float64)
        first, done = tokens, []
        for heads, mlp in self.layers:
            layer = RecordedLayer(
                heads.patterns(tokens, self.causal),
                heads.W_V,
                heads.W_O,
                heads.b_V,
                heads.b_O,
                SAME if self.skip else None,
            )
            tokens = layer.apply(tokens)
            if mlp is not None:
                after = mlp.record(tokens, self.skips_mlp)
                tokens = after.apply(tokens)
                layer = replace(layer, after=(after,))
            done.append(layer)
        return Pass(first, tuple(done), tokens)

    @classmethod
    def random(
        cls,
        layers: int,
        heads: int,
        d: int,
        *,
        k: int | None = None,
        v: int | None = None,
        ff: int = 0,
        activation: str = "gelu",
        init: Init = "xavier",
        bias: float = 0.0,
        skip: bool = False,
        causal: bool = False,
        mlp_skip: bool | None = None,
        seed: int = 0,
        batch: tuple[int, ...] = (),
    ) -> FloatNetwork:
        """Random weights; k and v are d / heads unless given, and ff = 0 is no MLP.

        "xavier" is uniform with variance 2 / (fan in + fan out), of all heads together; "bert" is
        normal with deviation 0.02; a number is the deviation of normal weights. Biases are normal
        with deviation `bias`; there are none if it is 0.
        """
        if (k is None or v is None) and d % heads:
            raise SegreError(f"heads: {heads} does not divide d={d}; give k and v")
        k, v = k or d // heads, v or d // heads
        rng = np.random.default_rng(seed)

        def weight(*shape: int, fans: int) -> Array:
            if init == "xavier":
                widest = (6 / fans) ** 0.5
                return rng.uniform(-widest, widest, (*batch, *shape))
            deviation = 0.02 if init == "bert" else float(init)
            return rng.standard_normal((*batch, *shape)) * deviation

        def shift(*shape: int) -> Array | None:
            return rng.standard_normal((*batch, *shape)) * bias if bias else None

        def layer() -> tuple[Heads, Mlp | None]:
            attention = Heads(
                weight(heads, d, k, fans=d + heads * k),
                weight(heads, d, k, fans=d + heads * k),
                weight(heads, d, v, fans=d + heads * v),
                weight(heads, v, d, fans=d + heads * v),
                *(shift(heads, k), shift(heads, k), shift(heads, v), shift(d)),
            )
            if not ff:
                return attention, None
            W_1, W_2 = weight(d, ff, fans=d + ff), weight(ff, d, fans=d + ff)
            return attention, Mlp(W_1, W_2, shift(ff), shift(d), activation)

        return cls(tuple(layer() for _ in range(layers)), skip, causal, mlp_skip)

    @classmethod
    def from_network(cls, spec: Network | Transformer, weights: Array) -> FloatNetwork:
        """A softmax stack, or a transformer without norms, with its vector of weights."""
        vector = np.asarray(weights, dtype=np.float64)
        return (
            _of_stack(spec, vector) if isinstance(spec, Network) else _of_transformer(spec, vector)
        )


def seen(n: int) -> Array:
    """Which keys (columns) a query (row) sees behind a causal mask."""
    return np.tril(np.ones((n, n), dtype=bool))


def _of_stack(spec: Network, vector: Array) -> FloatNetwork:
    if spec.residuals_in_balls:
        raise UnsupportedError(
            f"spec {quote(str(spec))}: only plain softmax in every head is supported here; use "
            "segre model collapse for other stacks"
        )
    every = []
    for layer, start in zip(spec.layers, layer_starts(spec), strict=True):
        w = unflatten(layer, vector[start : start + layer.parameters])
        none = np.tile(np.eye(layer.width_out), (layer.heads, 1, 1))
        W_O = none if w.W_O is None else w.W_O.mT
        every.append((Heads(w.W_Q.mT, w.W_K.mT, w.W_V.mT, W_O, scale=1.0), None))
    return FloatNetwork(tuple(every))


def _of_transformer(spec: Transformer, vector: Array) -> FloatNetwork:
    beyond = [
        (spec.norm != "none", "norms"),
        (spec.qknorm, "norms of queries and keys"),
        (spec.parallel, "MLPs parallel to attention"),
        (spec.sinks, "sinks"),
        (spec.gate != "none", "gates of heads"),
        (spec.discrete, "a vocabulary"),
        (spec.pos != "none", "positions"),
        (spec.latent, "latent attention"),
        (spec.attn != "softmax", "lightning attention"),
        (bool(spec.cap), "a soft cap"),
        (bool(spec.window), "a sliding window"),
        (spec.experts > 0 or spec.mlp in GATED, "a gated MLP"),
    ]
    found = [name for there, name in beyond if there]
    if found:
        raise UnsupportedError(
            f"{str(spec)!r} has {', '.join(found)}; supported: plain softmax attention and MLPs"
        )
    every = tensors(spec)

    def layer(number: int) -> tuple[Heads, Mlp | None]:
        part = "1" if spec.share else str(number)
        w = {
            name: vector[slot.range].reshape(slot.shape)
            for (where, name), slot in every.items()
            if where == part
        }
        given: dict[str, Any] = {f"W_{x}": of_heads(spec, w[f"W_{x}"]).mT for x in "QKVO"}
        given |= {f"b_{x}": of_heads(spec, w[f"b_{x}"])[..., 0] for x in "QKV" if f"b_{x}" in w}
        columns = {name: w[name][:, 0] for name in ("b_O", "b_up", "b_down") if name in w}
        heads = Heads(**given, b_O=columns.get("b_O"), scale=sqrt(spec.sharpness(number)))
        if spec.mlp == "none":
            return heads, None
        b_1, b_2 = columns.get("b_up"), columns.get("b_down")
        return heads, Mlp(w["W_up"].T, w["W_down"].T, b_1, b_2, spec.mlp)

    layers = tuple(layer(number) for number in range(1, spec.layers + 1))
    return FloatNetwork(layers, spec.residual, spec.causal)


def of_heads(spec: Transformer, found: Array) -> Array:
    """A tensor of heads (kv, group or 1, ...) as one for each head: (H, ...)."""
    shape = found.shape[-2:]
    return np.broadcast_to(found, (spec.kv, spec.group, *shape)).reshape(-1, *shape)
