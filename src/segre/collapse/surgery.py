"""Variants of a real model: skips, MLPs and norms taken out of its layers, and put back.

A layer has two sub-layers, attention f and then the MLP f, each with a skip and a norm N. Where
they are differs by family:

    post-norm (bert, albert, xlnet)                     y = N(x + f(x))
    pre-norm (gpt2, llama, mistral, qwen2, qwen3)       y = x + f(N(x))

Without skips the "x +" of both sub-layers is gone. Without norms N is the identity, also after
the last layer of pre-norm models. Without its MLP a layer is its attention sub-layer: what comes
out of that passes unchanged, so that the norm and the skip of the MLP are gone too. What comes
before the layers stays, with the norm of the embeddings (bert, albert): all variants start from
the same tokens. The norms of queries and keys (qwen3) stay, as a part of the pattern.

The code published with the paper removes the skip of attention alone (here: `mlp_skip`), which
delays collapse in trained models. It also leaves albert the activation of its MLP; its curve with
skips and without MLPs falls less than the one here.

The weights are never touched: methods of the model's own modules are replaced while a variant is
run, and restored when it ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from segre.collapse.library import libraries
from segre.collapse.models import Loaded
from segre.errors import SpecError
from segre.values import quote

Cut = tuple[Any, str, Callable[..., Any]]  # a module, the name of a method, what replaces it
See = Callable[[int, Any], None]  # is given the depth and the stream (batch, tokens, width)


@dataclass(frozen=True)
class Variant:
    """What the layers still have beside attention.

    >>> str(Variant()), str(Variant(skip=False, mlp=False)), str(Variant(mlp=False, norm=False))
    ('full', 'attention', 'attention+skip-norm')
    >>> str(Variant(skip=False)), str(Variant(skip=False, mlp_skip=True))
    ('attention+mlp', 'attention+skipped-mlp')
    """

    skip: bool = True
    mlp: bool = True
    norm: bool = True
    mlp_skip: bool | None = None  # the skip of the MLP, if it is not as that of attention

    @property
    def skips_mlp(self) -> bool:
        """Whether the input of the MLP is added to its output."""
        return self.skip if self.mlp_skip is None else self.mlp_skip

    @property
    def described(self) -> str:
        """Its name, and what it is.

        >>> Variant().described, Variant(skip=False, norm=False).described
        ('full, the model as it is', 'attention+mlp-norm, without skips and norms')
        """
        parts = {"skips": self.skip, "MLPs": self.mlp, "norms": self.norm}
        gone = [name for name, there in parts.items() if not there]
        if not gone:
            return f"{self}, the model as it is"
        *others, last = gone
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"{self}, without {listed}"

    def __str__(self) -> str:
        mlp = "mlp"
        if self.skips_mlp != self.skip:
            mlp = "skipped-mlp" if self.skips_mlp else "bare-mlp"
        parts = ["attention", *["skip"] * self.skip, *[mlp] * self.mlp]
        base = "+".join(parts).replace("attention+skip+mlp", "full")
        return base if self.norm else f"{base}-norm"


ATTENTION = Variant(skip=False, mlp=False)
FULL = Variant()
PAPER = (ATTENTION, Variant(skip=False), Variant(mlp=False), FULL)
PUBLISHED = (ATTENTION, Variant(skip=False, mlp_skip=True), Variant(mlp=False), FULL)
ALL = tuple(Variant(v.skip, v.mlp, norm) for norm in (True, False) for v in PAPER)


def variant(name: str) -> Variant:
    """A variant by its name."""
    found = {str(each): each for each in (*ALL, *PUBLISHED)}
    if name not in found:
        raise SpecError(f"variant {quote(name)}: not known; allowed: {', '.join(found)}")
    return found[name]


@contextmanager
def operated(loaded: Loaded, variant: Variant) -> Iterator[None]:
    """Inside, the model is the variant; afterwards it is exactly what it was."""
    done: list[tuple[Any, str, Any]] = []
    try:
        for module, name, replacement in CUTS[loaded.family](loaded.model, variant):
            done.append((module, name, vars(module).get(name)))
            setattr(module, name, replacement)
        yield
    finally:
        for module, name, before in reversed(done):
            delattr(module, name)
            if before is not None:
                setattr(module, name, before)


def run(loaded: Loaded, ids: Any, see: See | None = None, **rest: Any) -> None:
    """One forward pass; `see` is given the stream before the layers (0) and after each.

    The stream after the last layer is seen before the final norm of pre-norm models.
    """
    torch, _ = libraries()
    with torch.inference_mode(), _watched(loaded, see) if see else nullcontext():
        loaded.model(input_ids=ids, **rest)


@contextmanager
def _watched(loaded: Loaded, see: See) -> Iterator[None]:
    depth = 0

    def before(_module: Any, args: Any) -> None:
        if depth == 0:
            see(0, in_batches(loaded, args[0]))

    def after(_module: Any, _args: Any, output: Any) -> None:
        nonlocal depth
        depth += 1
        see(depth, in_batches(loaded, output[0] if isinstance(output, tuple) else output))

    layers = modules(loaded)
    hooks = [layers[0].register_forward_pre_hook(before)]
    hooks += [layer.register_forward_hook(after) for layer in dict.fromkeys(layers)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def modules(loaded: Loaded) -> list[Any]:
    """The layers in the order in which they are run; albert has one, run many times."""
    model = loaded.model
    match loaded.family:
        case "bert":
            return list(model.encoder.layer)
        case "albert":
            return [model.encoder.albert_layer_groups[0].albert_layers[0]] * loaded.layers
        case "xlnet":
            return list(model.layer)
        case "gpt2":
            return list(model.h)
    return list(model.layers)


def in_batches(loaded: Loaded, stream: Any) -> Any:
    """(batch, tokens, width), which xlnet has in another order."""
    return stream.transpose(0, 1) if loaded.family == "xlnet" else stream


# --- families: what is replaced --------------------------------------------------------------


def _bert(model: Any, variant: Variant) -> Iterator[Cut]:
    """Both sub-layers end in a module of their own, which is given the input to add."""
    for layer in model.encoder.layer:
        yield from _bert_output(layer.attention.output, variant.skip, variant.norm)
        if variant.mlp:
            yield from _bert_output(layer.output, variant.skips_mlp, variant.norm)
        else:
            yield layer, "feed_forward_chunk", _same


def _bert_output(output: Any, skip: bool, norm: bool) -> Iterator[Cut]:
    if not skip:
        forward = output.forward
        yield output, "forward", lambda hidden, _input: forward(hidden, 0.0)
    if not norm:
        yield output.LayerNorm, "forward", _same


def _albert(model: Any, variant: Variant) -> Iterator[Cut]:
    """The sums are written out before the norms, and dropped there."""
    layer = model.encoder.albert_layer_groups[0].albert_layers[0]
    attention = layer.attention
    yield from _norm_of_sum(attention.dense, attention.LayerNorm, variant.skip, variant.norm)
    last = layer.full_layer_layer_norm
    if variant.mlp:
        yield from _norm_of_sum(layer.ffn_output, last, variant.skips_mlp, variant.norm)
    else:
        yield layer, "ff_chunk", _zero
        yield last, "forward", _same


def _xlnet(model: Any, variant: Variant) -> Iterator[Cut]:
    """Attention is told whether to add; the MLP adds before its norm."""
    for layer in model.layer:
        attention = layer.rel_attn
        if not variant.skip:
            yield attention, "post_attention", _without_residual(attention.post_attention)
        if not variant.norm:
            yield attention.layer_norm, "forward", _same
        if variant.mlp:
            ff = layer.ff
            yield from _norm_of_sum(ff.layer_2, ff.layer_norm, variant.skips_mlp, variant.norm)
        else:
            yield layer.ff, "forward", _same


def _gpt2(model: Any, variant: Variant) -> Iterator[Cut]:
    """The sums are in the block itself, which is written anew around its modules."""
    for block in model.h:
        if not variant.norm:
            yield block.ln_1, "forward", _same
            yield block.ln_2, "forward", _same
        if variant != FULL:
            attend = _attend(block.attn)
            yield block, "forward", _pre_norm(block.ln_1, attend, block.ln_2, block.mlp, variant)
    if not variant.norm:
        yield model.ln_f, "forward", _same


def _decoder(model: Any, variant: Variant) -> Iterator[Cut]:
    """llama, mistral, qwen2 and qwen3: as gpt2, with other names."""
    for layer in model.layers:
        first, second = layer.input_layernorm, layer.post_attention_layernorm
        if not variant.norm:
            yield first, "forward", _same
            yield second, "forward", _same
        if variant != FULL:
            attend = _attend(layer.self_attn)
            yield layer, "forward", _pre_norm(first, attend, second, layer.mlp, variant)
    if not variant.norm:
        yield model.norm, "forward", _same


CUTS: dict[str, Callable[[Any, Variant], Iterator[Cut]]] = {
    "bert": _bert,
    "albert": _albert,
    "xlnet": _xlnet,
    "gpt2": _gpt2,
    "llama": _decoder,
    "mistral": _decoder,
    "qwen2": _decoder,
    "qwen3": _decoder,
}


# --- what replaces it ------------------------------------------------------------------------


def _same(x: Any) -> Any:
    return x


def _zero(x: Any) -> Any:
    return x.new_zeros(())


def _norm_of_sum(last: Any, norm: Any, skip: bool, normed: bool) -> Iterator[Cut]:
    """N(x + f(x)), where `last` is the last map of f: N of what `last` gave, without the skip."""
    final = norm.forward if normed else _same
    if skip:
        if not normed:
            yield norm, "forward", final
        return
    forward, kept = last.forward, {}

    def keep(x: Any) -> Any:
        kept["f(x)"] = forward(x)
        return kept["f(x)"]

    yield last, "forward", keep
    yield norm, "forward", lambda _sum: final(kept.pop("f(x)"))


def _without_residual(post: Callable[..., Any]) -> Callable[..., Any]:
    return lambda hidden, attended: post(hidden, attended, residual=False)


def _attend(attention: Any) -> Callable[..., Any]:
    """Attention with the patterns that it also returns left aside."""
    return lambda x, *rest, **named: attention(x, *rest, **named)[0]


def _pre_norm(
    first: Any, attend: Callable[..., Any], second: Any, mlp: Any, variant: Variant
) -> Callable[..., Any]:
    """Both sub-layers of a pre-norm layer."""

    def forward(x: Any, *rest: Any, **named: Any) -> Any:
        y = attend(first(x), *rest, **named)
        x = x + y if variant.skip else y
        if variant.mlp:
            y = mlp(second(x))
            x = x + y if variant.skips_mlp else y
        return x

    return forward
