"""The outputs of a stack of attention layers on long sequences: tokens in rows, in floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from segre.attention.layer import Layer, tap
from segre.attention.mechanism import Mechanism
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.models import Source
from segre.sequence.forms import METHODS
from segre.sequence.given import floats
from segre.sequence.mix import DEFAULT_LIMIT, mix, require_memory
from segre.sequence.tensors import Given, stack_of, tensors_of
from segre.stack.stages import named

Tensors = Mapping[str, Array]


def attend(
    spec: Source,
    weights: Given,
    X: Any,
    method: str = "auto",
    *,
    block: int | None = None,
    memory: int = DEFAULT_LIMIT,
) -> Array:
    """The output (..., n, d') of a stack on any number of tokens X (..., n, d).

    `weights` is a `Weights`, a vector, a mapping of names to arrays, or a file. Time and memory are
    linear in n for mechanisms with features and for windows. `method` is auto, dense, linear or
    band, `block` the number of tokens mixed at once. Float32 inputs `X` are computed in float32.

    >>> import segre
    >>> spec = "lightning/d=2,2/a=1/t=2"
    >>> attend(spec, segre.Weights.random(spec), np.ones((10_000, 2))).shape
    (10000, 2)
    """
    net = stack_of(spec)
    if method not in ("auto", *METHODS):
        raise SegreError(f"method {method!r} is not allowed; allowed: auto, {', '.join(METHODS)}")
    tokens = floats("X", X)
    if tokens.ndim < 2 or tokens.shape[-1] != net.width_in or not tokens.size:
        raise SegreError(
            f"X has shape {tokens.shape}; allowed: (tokens, {net.width_in}), one token per row"
        )
    given = tensors_of(net, weights)
    tensors = {name: x.astype(tokens.dtype, copy=False) for name, x in given.items()}
    batch, n = tokens.shape[:-2], tokens.shape[-2]
    tokens = tokens.reshape(-1, *tokens.shape[-2:])
    with np.errstate(all="ignore"):  # what leaves the range of floats is said at the end
        for number, layer in enumerate(net.layers, 1):
            _require(layer, tokens, memory)
            own = _by_group(layer, f"layer{number}.", tensors)
            tokens = np.stack([_layer(layer, own, one, method, block, memory) for one in tokens])
    if not np.isfinite(tokens).all():
        raise SegreError(
            f"the output on {n:,} tokens overflows {tokens.dtype}, or a sum of weights is zero; "
            "give smaller weights or tokens, or use float64"
        )
    return tokens.reshape(*batch, *tokens.shape[-2:])


def _by_group(layer: Layer, prefix: str, tensors: Tensors) -> list[Tensors]:
    """The tensors of each group of heads of a layer."""
    return [
        {name: tensors[prefix + named(n, name)] for name in shapes}
        for n, shapes in enumerate(layer.shapes)
    ]


def _layer(
    layer: Layer, tensors: list[Tensors], X: Array, method: str, block: int | None, memory: int
) -> Array:
    """One layer on tokens (n, d)."""
    total = np.zeros((len(X), layer.width_out), X.dtype)
    for group, w in zip(layer.groups, tensors, strict=True):
        one = group.mechanism
        queries = _mapped(w["W_Q"], X) + _bias(w, "b_Q")
        keys = _compressed(one, w, "K", X) + _bias(w, "b_K")
        values = _compressed(one, w, "V", X)
        for what, array in (("queries", queries), ("keys", keys), ("values", values)):
            if not np.isfinite(array).all():
                raise SegreError(f"{what} of {one.text} overflow {X.dtype}")
        decay = w.get("decay")
        out = mix(one, queries, keys, values, method, decay=decay, block=block, memory=memory)
        if one.gate != "none":
            out *= Real(X.dtype).sigmoid(_mapped(w["W_G"], X))
        if "W_O" in w:
            beside = out.swapaxes(0, 1).reshape(len(X), -1)
            total += beside @ w["W_O"].transpose(0, 2, 1).reshape(-1, layer.width_out)
        else:
            total += out.sum(axis=0)
    return total


def _mapped(maps: Array, X: Array) -> Array:
    """Tokens (n, d) through the maps (heads, rows, d): (heads, n, rows), one product."""
    heads, rows, d = maps.shape
    return (X @ maps.reshape(-1, d).T).reshape(len(X), heads, rows).swapaxes(0, 1)


def _bias(w: Tensors, name: str) -> Array | float:
    return w[name].swapaxes(-1, -2) if name in w else 0.0


def _compressed(one: Mechanism, w: Tensors, name: str, X: Array) -> Array:
    """Keys, or values, after the convolution along the sequence, if there is one."""
    if one.conv == "none":
        return _mapped(w[f"W_{name}"], X)
    if len(X) < one.kernel:
        raise SegreError(
            f"{one.text}: {len(X)} tokens are fewer than the kernel of {one.kernel}; "
            "give more tokens"
        )
    last = one.stride * (one.keys(len(X)) - 1) + 1
    total: Array | float = 0.0
    for place in range(one.kernel):
        part = X[place : place + last : one.stride]
        if one.conv == "full":
            part = _mapped(w[tap(f"W_{name}", place)], part)
        else:
            part = _mapped(w[f"W_{name}"], part) * w[tap(f"c_{name}", place)].swapaxes(-1, -2)
        total = total + part
    return np.asarray(total)


def _require(layer: Layer, tokens: Array, memory: int) -> None:
    """The arrays of a layer must fit into memory before any of them is made."""
    n = tokens.shape[-2]
    for group in layer.groups:
        wide = 3 * group.heads * (layer.a + layer.inner) + 2 * layer.width_out
        needed = tokens.nbytes + tokens.itemsize * n * wide
        require_memory(group.mechanism, n, needed, memory)
