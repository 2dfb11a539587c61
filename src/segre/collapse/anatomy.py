"""The layers of a real model as matrices: tokens are rows, x -> x W + b."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from segre.collapse.library import libraries
from segre.collapse.models import Loaded
from segre.collapse.stack import Affine
from segre.collapse.surgery import modules
from segre.fields.interface import Array


@dataclass(frozen=True)
class Heads:
    """What heads read and write: (H, d, v), (H, v, d), (H, v), (d,)."""

    W_V: Array
    W_O: Array
    b_V: Array | None = None
    b_O: Array | None = None


@dataclass(frozen=True)
class Mlp:
    """x -> activation(first x) then last; or activation(gate x) * first x, then last."""

    first: Any  # modules of torch
    last: Any
    activation: Callable[[Any], Any]
    gate: Any = None

    def steps(self, X: Array) -> tuple[Affine, ...]:
        """What it does to tokens X, with the gates fixed."""
        first = linear(self.first)
        z = (first if self.gate is None else linear(self.gate)).apply(X)
        gates = _applied(self.activation, z)
        if self.gate is None:
            gates = np.divide(gates, z, out=np.zeros_like(z), where=z != 0)
        return replace(first, s=gates), linear(self.last)


@dataclass(frozen=True)
class Norm:
    """A LayerNorm (centred) or RMSNorm: its gain, bias and epsilon."""

    gain: Array
    bias: Array | None
    epsilon: float
    centred: bool

    def steps(self, X: Array) -> tuple[Affine, ...]:
        """What it does to tokens X, with the roots fixed."""
        d = X.shape[-1]
        centre = np.eye(d) - 1 / d if self.centred else None
        kept = X if centre is None else X @ centre
        root = np.sqrt((kept**2).mean(axis=-1, keepdims=True) + self.epsilon)
        scaled = Affine(centre, None, self.gain / root)
        return (scaled,) if self.bias is None else (scaled, Affine(None, self.bias))


@dataclass(frozen=True)
class Anatomy:
    """One layer, and whether its norms come after the skips."""

    heads: Heads
    norms: tuple[Norm, Norm]
    mlp: Mlp
    attention: Any  # the module that returns patterns
    post: bool = False


def anatomy(loaded: Loaded) -> list[Anatomy]:
    """The layers of a model, in the order in which they are run."""
    read = {"bert": _bert, "albert": _albert, "xlnet": _xlnet, "gpt2": _gpt2}
    take = read.get(loaded.family, _decoder)
    found = {layer: take(layer, loaded) for layer in dict.fromkeys(modules(loaded))}
    return [found[layer] for layer in modules(loaded)]


def _bert(layer: Any, loaded: Loaded) -> Anatomy:
    own, end = layer.attention.self, layer.attention.output
    return Anatomy(
        _joint(loaded.heads, linear(own.value), linear(end.dense)),
        (_layer_norm(end.LayerNorm), _layer_norm(layer.output.LayerNorm)),
        Mlp(
            layer.intermediate.dense,
            layer.output.dense,
            layer.intermediate.intermediate_act_fn,
        ),
        own,
        post=True,
    )


def _albert(layer: Any, loaded: Loaded) -> Anatomy:
    own = layer.attention
    return Anatomy(
        _joint(loaded.heads, linear(own.value), linear(own.dense)),
        (_layer_norm(own.LayerNorm), _layer_norm(layer.full_layer_layer_norm)),
        Mlp(layer.ffn, layer.ffn_output, layer.activation),
        own,
        post=True,
    )


def _xlnet(layer: Any, _loaded: Loaded) -> Anatomy:
    own, ff = layer.rel_attn, layer.ff
    return Anatomy(
        Heads(_array(own.v).transpose(1, 0, 2), _array(own.o).transpose(1, 2, 0)),
        (_layer_norm(own.layer_norm), _layer_norm(ff.layer_norm)),
        Mlp(ff.layer_1, ff.layer_2, ff.activation_function),
        own,
        post=True,
    )


def _gpt2(layer: Any, loaded: Loaded) -> Anatomy:
    own, joint = layer.attn, layer.attn.c_attn  # of queries, keys and values
    value = Affine(*(_array(part)[..., 2 * loaded.width :] for part in (joint.weight, joint.bias)))
    return Anatomy(
        _joint(loaded.heads, value, linear(own.c_proj)),
        (_layer_norm(layer.ln_1), _layer_norm(layer.ln_2)),
        Mlp(layer.mlp.c_fc, layer.mlp.c_proj, layer.mlp.act),
        own,
    )


def _decoder(layer: Any, loaded: Loaded) -> Anatomy:
    """llama, mistral, qwen2 and qwen3."""
    own, mlp = layer.self_attn, layer.mlp
    return Anatomy(
        _joint(loaded.heads, linear(own.v_proj), linear(own.o_proj)),
        (_rms_norm(layer.input_layernorm), _rms_norm(layer.post_attention_layernorm)),
        Mlp(mlp.up_proj, mlp.down_proj, mlp.act_fn, mlp.gate_proj),
        own,
    )


def _joint(heads: int, value: Affine, out: Affine) -> Heads:
    """The heads of joint maps; a value that several queries share is repeated."""
    assert value.A is not None
    assert out.A is not None
    d = value.A.shape[0]
    width = out.A.shape[0] // heads
    groups = value.A.shape[1] // width

    def repeated(array: Array) -> Array:
        return np.repeat(array, heads // groups, axis=0)

    return Heads(
        repeated(value.A.reshape(d, groups, width).transpose(1, 0, 2)),
        out.A.reshape(heads, width, -1),
        None if value.a is None else repeated(value.a.reshape(groups, width)),
        out.a,
    )


def linear(module: Any) -> Affine:
    """A linear map of the library; the Conv1D of gpt2 has inputs in rows already."""
    weight = _array(module.weight)
    A = weight if type(module).__name__ == "Conv1D" else weight.T
    return Affine(A, None if module.bias is None else _array(module.bias))


def _layer_norm(module: Any) -> Norm:
    return Norm(_array(module.weight), _array(module.bias), float(module.eps), centred=True)


def _rms_norm(module: Any) -> Norm:
    return Norm(_array(module.weight), None, float(module.variance_epsilon), centred=False)


def _array(weight: Any) -> Array:
    return np.asarray(weight.detach().double().numpy())


def _applied(function: Callable[[Any], Any], values: Array) -> Array:
    """A function of torch on an array."""
    torch, _ = libraries()
    with torch.inference_mode():
        return np.asarray(function(torch.from_numpy(values)).numpy())
