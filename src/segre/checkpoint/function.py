"""What follows from the configs of two checkpoints, before any weight is compared?

A checkpoint is its tensors and everything in its config that changes the function. Two checkpoints
are compared on inputs as long as the longer context of the two: a window or a rescaling of
frequencies that matters only beyond that is ignored. The scale of the scores
belongs to the queries, and is compared with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from segre.checkpoint.model import Model
from segre.errors import CheckpointError
from segre.fields.real import Real
from segre.models.registry import unknown_differences
from segre.transformer.choices import KEYS
from segre.transformer.forward import query_factors
from segre.transformer.rotary import frequencies
from segre.transformer.spec import Transformer
from segre.values import show

_ALIKE = 1e-12  # frequencies are computed in floating point
_NONE = {"scale": "standard", "window": "none", "rescale": "none"}


def unknown(one: Model, two: Model) -> str:
    """Differences between the configs that segre cannot judge, in words; may be empty."""
    keys = ", ".join(unknown_differences(one.store.config, two.store.config))
    said = f"config.json differs in {keys}, and segre does not know whether that changes"
    return f"{said} the function" if keys else ""


def differing_keys(one: Transformer, two: Transformer) -> list[str]:
    """The keys of specs in which two functions differ, scales of scores aside."""
    length = max(one.t, two.t)
    a, b = (replace(spec, t=length) for spec in (one, two))
    plain = _plain(one), _plain(two)
    keys = [key for key in KEYS if getattr(plain[0], key) != getattr(plain[1], key)]
    layers = range(1, one.layers + 1)
    if "layers" not in keys and [a.sees(i) for i in layers] != [b.sees(i) for i in layers]:
        keys.append("window")
    if not keys and one.rotary_dim and not all(_turn_alike(a.at(i), b.at(i)) for i in layers):
        keys += [key for key in ("base", "rescale") if getattr(one, key) != getattr(two, key)]
    if not keys and one.rotary_dim and one.still and [*_grown(one)] != [*_grown(two)]:
        keys.append("rescale")  # only what turns is multiplied: the queries cannot make up for it
    return keys


def _turn_alike(one: Transformer, two: Transformer) -> bool:
    """Whether one layer of each has the same rotary angles."""
    if (one.base, one.rescale, one.rotary_dim) == (two.base, two.rescale, two.rotary_dim):
        return True
    if one.rotary_dim != two.rotary_dim:
        return False
    steps = {one.t, *(min(one.t, length) for spec in (one, two) for length in lengths(spec))}
    turns = ([frequencies(replace(x, t=t)).floats() for t in sorted(steps)] for x in (one, two))
    ours, theirs = map(np.concatenate, turns)
    return bool(np.allclose(ours, theirs, rtol=_ALIKE, atol=0))


def lengths(spec: Transformer) -> tuple[int, ...]:
    """The longest inputs that longrope takes for short ones."""
    how = spec.rescaling
    return (int(how.length),) if how is not None and how.kind == "longrope" else ()


def _plain(spec: Transformer) -> Transformer:
    """The architecture without the choices that are compared separately."""
    t = spec.t if spec.pos == "learned" else 2
    none = Fraction(0)
    return replace(spec, window=(), rescale="", base=2, scale=none, bylayer=False, t=t)


def in_words(one: Transformer, two: Transformer, keys: list[str]) -> str:
    """Differences in words: window is none and 4."""
    said = {key: [_said(key, getattr(spec, key)) for spec in (one, two)] for key in keys}
    return ", ".join(f"{key} is {a} and {b}" for key, (a, b) in said.items() if a != b)


def _said(key: str, value: Any) -> str:
    if key in _NONE and not value:
        return _NONE[key]
    if isinstance(value, Fraction) and value.denominator > 1:
        return f"{float(value):g}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else show(value)


def require_same_architecture(one: Model, two: Model) -> None:
    """Refuse two checkpoints whose weights cannot be compared at all."""
    if keys := differing_keys(one.spec, two.spec):
        names = [repr(one.name), repr(two.name)]
        if one.family != two.family:
            names = [f"{each.name!r} ({each.family})" for each in (one, two)]
        raise CheckpointError(
            f"{' and '.join(names)} have different architectures: "
            f"{in_words(one.spec, two.spec, keys)}; segre analyze A --against B puts them side by "
            "side"
        )


def scales_apart(one: Model, two: Model) -> str:
    """How the scales of the scores differ, in words; empty if they do not."""
    if not _ratios(one.spec, two.spec):
        return ""
    return in_words(one.spec, two.spec, ["scale", "bylayer", "rescale"])


def restated(two: Model, one: Model) -> Model:
    """The second checkpoint, with scores scaled as in the first: its queries make up for it."""
    names, found = query_factors(two.spec), _ratios(one.spec, two.spec)
    return replace(two, factors={part: dict.fromkeys(names, x) for part, x in found.items()})


def require_same_scale(one: Model, two: Model) -> None:
    """Refuse two checkpoints whose query weights mean different things."""
    if said := scales_apart(one, two):
        raise CheckpointError(
            f"{one.name!r} and {two.name!r} scale their scores differently: "
            f"{said}; allowed: the same scale"
        )


def _ratios(one: Transformer, two: Transformer) -> dict[str, float]:
    """By layer, how much larger the second's factor of the scores is, where it is not the same."""
    every = zip(_factors(one), _factors(two), strict=True)
    ratios = {str(i): float(b / a) for i, (a, b) in enumerate(every, 1)}
    return {part: x for part, x in ratios.items() if abs(x - 1) > _ALIKE}


def _factors(spec: Transformer) -> Iterator[float]:
    """The factor of the scores of every layer, beyond the standard one."""
    for layer, grown in enumerate(_grown(spec), 1):
        yield Real().absorbed(spec.sharpness(layer)).item() * grown


def _grown(spec: Transformer) -> Iterator[float]:
    """What rescaled frequencies multiply the scores of every layer by."""
    for layer in range(1, spec.layers + 1):
        how = spec.at(layer).rescaling
        yield 1.0 if how is None else Real().absorbed(*how.growth).item() ** 2  # queries and keys
