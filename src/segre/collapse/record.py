"""One forward pass of a transformer, written down: patterns and matrices of every head.

Given the patterns, the gates of its MLPs and the roots of its norms, a layer is affine in the
tokens. The patterns are seen by a hook of the forward map; `Pass.replay` multiplies the matrices
and gives the model's own hidden states, up to the rounding of double precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from segre.checkpoint.inputs import require_tokens
from segre.checkpoint.model import Model
from segre.collapse.activations import quotient
from segre.collapse.passes import SAME, Affine, Pass, RecordedLayer, TokenMap
from segre.collapse.stack import of_heads
from segre.collapse.variants import BARE, Variant
from segre.errors import UnsupportedError
from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.geometry.memory import DEFAULT_LIMIT
from segre.transformer.forward import AFTER, ATTENTION, MLP, Place, Tokens, run
from segre.transformer.layers import activate, product, routing
from segre.transformer.spec import Transformer

Tensors = Mapping[str, Array]
_READ = ("hook_resid_pre", "hook_resid_mid")  # the streams that attention and an MLP read
_KEPT = (*_READ, "attn.hook_pattern")


def record(model: Model, ids: Any, variant: Variant = BARE, *, memory: int = DEFAULT_LIMIT) -> Pass:
    """A pass of a variant on tokens (n,), or on a batch of sequences (b, n), in float64."""
    _require_patterns(model)
    model.require_memory("recorded matrices", 8 * model.spec.parameters, memory)
    words = require_tokens(model, ids)
    single, spec = words.ndim == 1, model.spec
    tokens = Tokens(np.atleast_2d(words))

    def rows(x: Array) -> Array:
        return np.ascontiguousarray((x[0, 0, 0] if single else x[:, 0, 0]).swapaxes(-1, -2))

    streams: list[Array] = []
    layers: list[RecordedLayer] = []
    seen: dict[str, Array] = {}

    def hook(place: Place, name: str, x: Array) -> Array:
        if place.depth(name) == 0:
            streams.append(rows(x))
        own = place.spec
        if name in AFTER and own is not None:
            X = rows(seen[_READ[place.number == MLP and not spec.parallel]])
            if place.number == ATTENTION:
                P = _by_query(seen["attn.hook_pattern"])
                layers.append(_attention(own, place.w, X, P[0] if single else P, place.layer))
            elif spec.parallel:
                (beside,) = _mlp(own, place.w, X)
                skip = layers[-1].past is not None
                layers[-1] = replace(layers[-1], past=replace(beside, skip=skip))
            else:
                after = (*layers[-1].after, *_mlp(own, place.w, X))
                layers[-1] = replace(layers[-1], after=after)
        if name in _KEPT:
            seen[name] = x
        return x

    with threads_for(spec.d):
        ((x,),) = run(model, [tokens], Real(), [variant.edit], hook)
    return Pass(streams[0], tuple(layers), rows(x))


def _require_patterns(model: Model) -> None:
    for mechanism in model.spec.mechanisms:
        if not mechanism.sums_to_one:
            raise UnsupportedError(
                f"model {model.name!r}: {mechanism.name} attention is not supported, since its "
                "patterns do not sum to one"
            )
    if model.spec.gate != "none":
        raise UnsupportedError(
            f"model {model.name!r}: gated heads are not supported, since they are not a pattern "
            "times a matrix"
        )


def _by_query(P: Array) -> Array:
    """(inputs, H, queries, keys)."""
    return P.reshape(len(P), -1, *P.shape[-2:]).swapaxes(-1, -2)


def _attention(spec: Transformer, w: Tensors, X: Array, P: Array, layer: int) -> RecordedLayer:
    """What the attention of a layer (from 1) did to tokens X, with its norms and its skip."""
    steps = _norm(spec, w, "norm1", X) if spec.normed_at(layer, 1) else ()
    if spec.latent:
        latent = Affine(w["A_K"].T)
        at = latent.apply(TokenMap(steps).apply(X))
        steps = (*steps, latent, *_norm(spec, w, "normk", at, centred=False))
    b_O = w["b_O"][:, 0] if "b_O" in w else None
    out = RecordedLayer(
        P,
        of_heads(spec, w["W_V"]).mT,
        of_heads(spec, w["W_O"]).mT,
        of_heads(spec, w["b_V"])[..., 0] if "b_V" in w else None,
        b_O,
        SAME if spec.residual else None,
        TokenMap(steps),
    )
    if spec.normed_inside:
        last = TokenMap(_norm(spec, w, "post1", out.attention(X)))
        out = replace(out, out=last)
    if spec.norm != "none" and spec.place == "post":
        out = replace(out, after=(TokenMap(_norm(spec, w, "post1", out.apply(X))),))
    return out


def _mlp(spec: Transformer, w: Tensors, X: Array) -> tuple[TokenMap, ...]:
    """What the MLP of a layer did to tokens X, with its norms and its skip."""
    steps = _norm(spec, w, "norm2", X) if spec.normed_before else ()
    read = TokenMap(steps).apply(X)
    if "W_R" in w:
        steps = (*steps, *_experts(spec, w, read))
    else:
        first = Affine(w["W_up"].T, w["b_up"][:, 0] if "b_up" in w else None)
        gate = first
        if spec.gated:
            gate = Affine(w["W_gate"].T, w["b_gate"][:, 0] if "b_gate" in w else None)
        last = Affine(w["W_down"].T, w["b_down"][:, 0] if "b_down" in w else None)
        gates = _gates(spec, gate.apply(read), first.apply(read))
        steps = (*steps, replace(first, s=gates), last)
    if spec.normed_inside:
        steps = (*steps, *_norm(spec, w, "post2", TokenMap(steps).apply(X)))
    done = TokenMap(steps, spec.residual)
    if spec.norm != "none" and spec.place == "post":
        return done, TokenMap(_norm(spec, w, "post2", done.apply(X)))
    return (done,)


def _gates(spec: Transformer, z: Array, up: Array) -> Array:
    """What units are multiplied by: `up`, the other factor of gated ones, or z itself."""
    if spec.gated and spec.mlp != "clamped":
        return np.asarray(activate(Real(), spec.mlp, z))
    of = up if spec.gated else z
    grown = product(Real(), spec, z, up) if spec.gated else activate(Real(), spec.mlp, z)
    return quotient(grown, of)


def _experts(spec: Transformer, w: Tensors, X: Array) -> tuple[Affine, Affine]:
    """All experts side by side, each gated by its share; the shared one has share one."""
    columns = X.reshape(-1, *X.shape[-2:]).swapaxes(-1, -2)[:, None, None]
    share = routing(Real(), spec, w, columns)[:, 0, :, 0].swapaxes(-1, -2)  # (inputs, n, experts)
    share = np.repeat(share.reshape(*X.shape[:-1], -1), spec.eff, axis=-1)
    up, gate = (w[name].reshape(-1, spec.d) for name in ("W_up", "W_gate"))
    down = w["W_down"].mT.reshape(-1, spec.d)
    if "S_up" in w:
        up, gate = np.concatenate((up, w["S_up"])), np.concatenate((gate, w["S_gate"]))
        down = np.concatenate((down, w["S_down"].T))
        own = np.ones((*X.shape[:-1], spec.shared))
        if "S_R" in w:
            own *= Real().sigmoid(X @ w["S_R"].T)
        share = np.concatenate((share, own), axis=-1)
    if "c_up" not in w:
        return Affine(up.T, None, _gates(spec, X @ gate.T, X @ up.T) * share), Affine(down)
    first = Affine(up.T, w["c_up"].reshape(-1))
    gates = _gates(spec, X @ gate.T + w["c_gate"].reshape(-1), first.apply(X)) * share
    # an expert's bias is what a unit writes that is always 1
    ones = Affine(
        np.concatenate((up.T, np.zeros((spec.d, spec.experts))), axis=1),
        np.concatenate((w["c_up"].reshape(-1), np.ones(spec.experts))),
        np.concatenate((gates, share[..., :: spec.eff]), axis=-1),
    )
    return ones, Affine(np.concatenate((down, w["c_down"][..., 0])))


def _norm(
    spec: Transformer, w: Tensors, name: str, X: Array, *, centred: bool | None = None
) -> tuple[Affine, ...]:
    """What a norm does to tokens X, with the roots fixed."""
    d = X.shape[-1]
    centred = spec.norm == "layer" if centred is None else centred
    centre = np.eye(d) - 1 / d if centred else None
    kept = X if centre is None else X @ centre
    root = np.sqrt((kept**2).mean(axis=-1, keepdims=True) + float(spec.eps))
    gain = w[f"{name}.gain"][:, 0] if f"{name}.gain" in w else np.ones(d)
    scaled = Affine(centre, None, gain / root)
    bias = w.get(f"{name}.bias")
    return (scaled,) if bias is None else (scaled, Affine(None, bias[:, 0]))
