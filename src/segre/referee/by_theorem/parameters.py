"""How many weights has an architecture that a theorem covers? Counted by the meaning of its keys.

The number of layers is a factor, so that a large model takes no longer than a small one.
"""

from __future__ import annotations

from segre.polynomial.spec import Convolution, Polynomial
from segre.referee.by_theorem.designs import GATED, Spec
from segre.spec import Network
from segre.transformer.spec import Transformer


def parameters(spec: Spec) -> int:
    """The number P of weights of a covered design."""
    if isinstance(spec, Polynomial):
        return _of_polynomial(spec)
    return _of_stack(spec) if isinstance(spec, Network) else _of_transformer(spec)


def _of_polynomial(spec: Polynomial) -> int:
    total = 0
    for layer in spec.layers:
        if isinstance(layer, Convolution):
            total += layer.kernel + (1 if spec.bias else 0)
        else:
            total += layer.width_out * (layer.width_in + (1 if spec.bias else 0))
    return total


def _of_stack(net: Network) -> int:
    total = 0
    for layer in net.layers:
        head, before, after = layer, layer.width_in, layer.width_out
        # W_K and W_Q; then the value map, in one matrix or in two.
        total += 2 * head.heads * head.a * before
        value = before * after if head.dv is None else head.dv * before + after * head.dv
        total += head.heads * value
    return total


def _of_transformer(spec: Transformer) -> int:
    return _tables(spec) + spec.layers * (_attention(spec) + _mlp(spec)) + _end(spec)


def _norm(spec: Transformer) -> int:
    """A gain for each coordinate, and a bias where everything has biases."""
    return spec.d * (2 if spec.norm == "layer" and spec.bias == "all" else 1)


def _tables(spec: Transformer) -> int:
    """Rows of tokens, learned positions and types, and a norm after them."""
    rows = spec.vocab + spec.types
    if spec.pos == "learned":
        rows += spec.positions
    return rows * spec.d + (_norm(spec) if spec.embnorm else 0)


def _attention(spec: Transformer) -> int:
    """Queries, keys, values, outputs; norms: one, and a second one around what is written."""
    read = spec.heads * spec.head + spec.kv * spec.head + spec.kv * spec.dv
    total = read * spec.d + spec.heads * spec.dv * spec.d
    if spec.bias in ("qkv", "all"):
        total += read
    if spec.bias == "all":
        total += spec.d
    if spec.qknorm:
        total += 2 * spec.head
    return total + _norms(spec)


def _mlp(spec: Transformer) -> int:
    inner = 2 * spec.ff if spec.mlp in GATED else spec.ff
    total = spec.d * inner + spec.ff * spec.d
    if spec.bias == "all":
        total += inner + spec.d
    return total + _norms(spec)


def _norms(spec: Transformer) -> int:
    """The norms of one sub-layer."""
    return _norm(spec) * (2 if spec.place == "sandwich" else 1)


def _end(spec: Transformer) -> int:
    """What comes after the last layer."""
    total = _norm(spec) if spec.final else 0
    if spec.transform:
        total += spec.d * spec.d + (spec.d if spec.bias == "all" else 0) + _norm(spec)
    if spec.pooler:
        total += spec.d * spec.d + spec.d
    if spec.output != "hidden":
        total += 0 if spec.tied else spec.vocab * spec.d
        total += spec.vocab if spec.outbias else 0
    return total
