"""Which design choices does a stack make, and instead of what?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from segre.attention import PLAIN
from segre.attention.layer import Group, regrouped
from segre.attention.mechanism import LIGHTNING, NAMED, SOFTMAX, Mechanism
from segre.errors import SpecError
from segre.slope import Slope
from segre.spec import Network

Edit = Callable[[Mechanism], Mechanism]

_WORDS = {
    "double": ("weights normalised over queries and keys", "over keys only"),
    "gapless": ("1/t subtracted from the weights", "the weights themselves"),
}


def stack_choices(spec: Network) -> Iterator[tuple[str, str, Network]]:
    """Each choice by itself, what stands instead of it, and the stack with that."""
    for name, instead, edit in _replacements(spec) if spec.plain else _edits(spec):
        try:
            other = edited(spec, edit)
        except SpecError:
            continue
        if other != spec:
            yield name, instead, other
    if spec.plain and any(layer.heads > 1 for layer in spec.layers):
        alone = (replace(layer, groups=(Group(spec.mechanism, 1),)) for layer in spec.layers)
        yield "several heads", "one head in every layer", replace(spec, layers=tuple(alone))
    if any(layer.dv is not None for layer in spec.layers):
        layers = tuple(replace(layer, dv=None) for layer in spec.layers)
        instead = "one value matrix for each head"
        yield "factored value matrices", instead, replace(spec, layers=layers)


def edited(spec: Network, edit: Edit) -> Network:
    """The same stack with other mechanisms."""
    layers = []
    for layer in spec.layers:
        heads = [edit(group.mechanism) for group in layer.groups for _ in range(group.heads)]
        layers.append(replace(layer, groups=regrouped(heads)))
    return replace(spec, layers=tuple(layers))


def _replacements(spec: Network) -> Iterator[tuple[str, str, Edit]]:
    for name in PLAIN:
        yield f"{spec.score} attention", f"{name} attention", _always(NAMED[name])


def _edits(spec: Network) -> Iterator[tuple[str, str, Edit]]:
    every = spec.mechanisms
    gates = {one.gate for one in every} - {"none"}
    for gate in sorted(gates):
        other = "head" if gate == "element" else "element"
        yield f"a gate for every {gate}", "no gate", _instead("gate", gate, "none")
        yield f"a gate for every {gate}", f"a gate for every {other}", _instead("gate", gate, other)
    if any(one.decay != "none" for one in every):
        yield "decay", "none (causal)", lambda one: replace(one, decay="none")
    decays = {one.decay for one in every if isinstance(one.decay, Slope) or one.decay != "none"}
    if len(decays - {"learned"}) > 1:
        first = next(one.decay for one in every if one.decay not in ("none", "learned"))
        yield (
            "a separate decay for every head",
            "the same decay for all",
            lambda one: one if one.decay in ("none", "learned") else replace(one, decay=first),
        )
    if any(one.window is not None for one in every):
        yield "a window", "no window", lambda one: replace(one, window=None)
    if any(one.local is not None for one in every):
        yield "local blocks", "none", lambda one: replace(one, local=None)
    if any(one.causal and one.decay == "none" for one in every):
        yield "a causal mask", "no mask", _uncausal
    if any(one.conv != "none" for one in every):
        yield (
            "compressed keys and values",
            "a key for every token",
            lambda one: replace(one, conv="none", kernel=1, stride=1),
        )
    if any(one.unit != "none" for one in every):
        yield (
            ("keys and queries of unit size"),
            "without normalisation",
            lambda one: replace(one, unit="none"),
        )
    if any(one.feature != "none" for one in every):
        yield "a feature map", "none", lambda one: replace(one, feature="none")
    if any(one.bias != "none" for one in every):
        yield "biases of keys and queries", "none", lambda one: replace(one, bias="none")
    for name, (words, instead) in _WORDS.items():
        if any(one.normalise == NAMED[name].normalise for one in every):
            kind = NAMED[name].normalise
            yield words, instead, _instead("normalise", kind, "keys")
    if any(one.normalise == "keys" and one.linear for one in every):
        yield "normalised weights", "not normalised", _instead("normalise", "keys", "none")
    for one in (SOFTMAX, LIGHTNING):
        yield "these mechanisms", f"{one.name} in all heads", _always(one)


def _instead(key: str, value: str, other: str) -> Edit:
    change: dict[str, Any] = {key: other}
    return lambda one: replace(one, **change) if getattr(one, key) == value else one


def _uncausal(one: Mechanism) -> Mechanism:
    return one if one.decay != "none" else replace(one, causal=False)


def _always(one: Mechanism) -> Edit:
    return lambda _: one
