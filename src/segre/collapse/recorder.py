"""One forward pass of a real model, written down: patterns and matrices of every head.

Given the patterns, the gates of its MLPs and the roots of its norms, a layer is affine in the
tokens. `Pass.replay` multiplies these matrices and gives the model's own hidden states, up to
the rounding of double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from segre.collapse.anatomy import Anatomy, Norm, anatomy
from segre.collapse.double import in_double
from segre.collapse.library import libraries
from segre.collapse.models import Loaded, require_memory
from segre.collapse.stack import Pass, RecordedLayer, TokenMap
from segre.collapse.surgery import Variant, operated, run
from segre.errors import SpecError
from segre.fields.interface import Array
from segre.geometry.memory import DEFAULT_LIMIT

BARE = Variant(skip=False, mlp=False, norm=False)  # the networks of the theorems


def record(
    loaded: Loaded, ids: Any, variant: Variant = BARE, *, memory: int = DEFAULT_LIMIT
) -> Pass:
    """A pass of a variant on tokens (n,), or on a batch of sequences (b, n).

    The weights are float32 numbers; all computing is in float64.
    """
    torch, _ = libraries()
    require_memory(loaded.name, loaded.parameters, 16, memory)  # the model and the record
    tokens = torch.as_tensor(ids)
    if tokens.ndim not in (1, 2) or tokens.shape[-1] < 1:
        raise SpecError(f"tokens of shape {list(tokens.shape)}; allowed: (n,) or (b, n)")
    single = tokens.ndim == 1
    parts = anatomy(loaded)
    states: list[Array] = []
    patterns: list[Array] = []
    rest = {"output_attentions": True} if loaded.family == "xlnet" else {}
    with in_double(loaded), operated(loaded, variant), _patterns(loaded, parts, patterns):
        batch = tokens[None] if single else tokens
        run(loaded, batch, lambda _depth, X: states.append(X.numpy().copy()), **rest)
    if single:
        states, patterns = [X[0] for X in states], [P[0] for P in patterns]
    layers = zip(parts, patterns, states[:-1], strict=True)
    return Pass(states[0], tuple(_layer(*layer, variant) for layer in layers), states[-1])


@contextmanager
def _patterns(loaded: Loaded, parts: list[Anatomy], found: list[Array]) -> Iterator[None]:
    """Inside, the patterns (b, H, n, n) of all layers are written down as they are computed."""

    def see(_module: Any, _args: Any, output: Any) -> None:
        P = output[2].permute(2, 3, 0, 1) if loaded.family == "xlnet" else output[1]
        found.append(P.numpy().copy())

    hooks = [
        module.register_forward_hook(see)
        for module in dict.fromkeys(part.attention for part in parts)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _layer(part: Anatomy, P: Array, X: Array, variant: Variant) -> RecordedLayer:
    """What a layer did to tokens X."""
    heads = part.heads
    first, second = part.norms
    layer = RecordedLayer(P, heads.W_V, heads.W_O, heads.b_V, heads.b_O, variant.skip)
    if not part.post:
        if variant.norm:
            layer = replace(layer, before=_norm(first, X))
        return _then_mlp(layer, part, layer.apply(X), variant, second)
    Y = layer.apply(X)
    if variant.norm:
        layer = replace(layer, after=(_norm(first, Y),))
        Y = layer.after[0].apply(Y)
    layer = _then_mlp(layer, part, Y, variant, None)
    if variant.norm and variant.mlp:
        return replace(layer, after=(*layer.after, _norm(second, layer.after[-1].apply(Y))))
    return layer


def _then_mlp(
    layer: RecordedLayer, part: Anatomy, Y: Array, variant: Variant, norm: Norm | None
) -> RecordedLayer:
    """The layer with its MLP; the norm before that, if any, is a part of its steps."""
    if not variant.mlp:
        return layer
    steps = norm.steps(Y) if norm is not None and variant.norm else ()
    read = TokenMap("norm", steps).apply(Y)
    mlp = TokenMap("mlp", (*steps, *part.mlp.steps(read)), variant.skips_mlp)
    return replace(layer, after=(*layer.after, mlp))


def _norm(norm: Norm, X: Array) -> TokenMap:
    return TokenMap("norm", norm.steps(X))
