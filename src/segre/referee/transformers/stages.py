"""Which stages does a transformer have, and how many roots and arguments has each?

Sections 3 and 4; everything here is a count, no point is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from segre.referee.transformers.angles import rational
from segre.referee.transformers.weights import EMBED, HEAD, turning
from segre.transformer.spec import Transformer

SIGMOID = ("silu", "swiglu", "gelu-quick", "geglu-quick", "clamped")
QUICK = ("gelu-quick", "geglu-quick", "clamped")
TANH = ("gelu-tanh", "geglu-tanh")
NORMAL = ("gelu", "geglu")
RELU = ("relu", "relu2", "reglu", "clamped")


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the network: "embedding", "attention", "mlp", "layer" or "head".

    A "layer" is attention and MLP of a parallel layer.
    """

    kind: str
    part: int
    layer: int = 0  # from 1; 0 for the ends


def stages(spec: Transformer) -> list[Stage]:
    """All stages in order; their numbers count from 0."""
    result = []
    if spec.vocab or spec.pos == "learned":
        result.append(Stage("embedding", EMBED))
    for layer in range(1, spec.layers + 1):
        part = 1 if spec.share else layer
        if spec.parallel:
            result.append(Stage("layer", part, layer))
            continue
        result.append(Stage("attention", part, layer))
        if spec.mlp != "none":
            result.append(Stage("mlp", part, layer))
    if spec.final or spec.output != "hidden" or spec.pooler or spec.project:
        result.append(Stage("head", HEAD))
    return result


def sources(spec: Transformer) -> int:
    """How many lists of salts an input has."""
    return 1 + len(stages(spec))


def roots(spec: Transformer, stage: Stage) -> list[int]:
    """The numbers of entries of the roots of a stage, in order."""
    t, normed, kind = spec.t, spec.norm != "none", stage.kind
    if kind == "embedding":
        return [t] * spec.embnorm
    if kind == "head":
        last = 1 if spec.labels and spec.read != "all" else t
        normed = spec.transform and spec.headnorm and spec.output != "hidden"
        return [t] * spec.final + [last] * normed
    bare = not spec.firstnorm and kind == "attention" and stage.layer == 1
    result = [t] * (normed and spec.place in ("pre", "sandwich") and not bare)
    if kind in ("attention", "layer"):
        if spec.kvrank:
            result += [t] * (spec.qrank > 0) + [t]
        elif spec.qknorm == "all":
            result += [t, t]
        elif spec.qknorm:
            result += [spec.kv * t, spec.heads * t]
        result += [t] * spec.at(stage.layer).mixnorm
    return result + [t] * (normed and spec.place != "pre")


def root_counts(spec: Transformer) -> list[list[int]]:
    """The numbers of entries of all roots, by stage and root."""
    return [roots(spec, stage) for stage in stages(spec)]


def _window(spec: Transformer, layer: int) -> int:
    """The window of a layer that is numbered from 1; 0 is none."""
    return spec.window[(layer - 1) % len(spec.window)] if spec.window else 0


def seen(spec: Transformer, layer: int, key: int, query: int) -> bool:
    """Whether a query of a layer sees a key."""
    window = _window(spec, layer)
    if window and (key <= query - window or key >= query + window):
        return False
    return key <= query or not spec.causal


def _pairs(spec: Transformer, layer: int) -> int:
    """How many pairs (key, query) are seen; no loop, since t may be any number here."""
    t = spec.t
    window = min(_window(spec, layer) or t, t)
    backwards = window * (window + 1) // 2 + (t - window) * window
    return backwards if spec.causal else 2 * backwards - t


def argument_count(spec: Transformer) -> int:
    """How many arguments there are, without a vocabulary, experts or relu."""
    t, total = spec.t, 0
    for layer in range(1, spec.layers + 1):
        own = spec.at(layer)
        if own.attn == "softmax":
            total += spec.heads * (_pairs(own, layer) + (t * t if spec.cap else 0))
        if own.feature != "none":
            total += t * ((own.heads + own.kv) * own.head + own.kv * own.dv)
        if own.gate != "none":
            total += spec.heads * t * (spec.dv if own.gate == "element" else 1)
        if spec.mlp in SIGMOID + TANH + NORMAL:
            total += spec.ff * t
    return total


def minor_mod_p(spec: Transformer) -> bool:
    """Whether a minor mod p proves anything about this transformer, section 6."""
    constants = turning(spec) > 0 or spec.decay != "none"
    return (
        spec.vocab == 0
        and spec.patch == 0
        and spec.experts == 0
        and spec.mlp not in RELU
        and not (constants and spec.mlp in TANH)
        and _one_way(spec)
    )


def _one_way(spec: Transformer) -> bool:
    """Whether all layers that turn do so by the same angles, and these can be had mod p."""
    ways = spec.rotations
    if len(ways) > 1:
        return False
    return all(rational(replace(spec, base=base, rescale=how)) for base, how in ways)


def needs_independence(spec: Transformer) -> bool:
    """Whether a minor mod p needs the independence of arguments, section 7."""
    exponentials = spec.attn != "lightning" or spec.gate != "none" or spec.feature != "none"
    return exponentials or spec.mlp not in ("none", "bilinear")
