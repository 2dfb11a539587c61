"""Kinds of layers in configs: with a sliding window or without, each with its rotary base."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from segre.errors import SpecError
from segre.models.config import Config
from segre.models.family import Values
from segre.models.rope import rope_base, rope_of_kind, rope_rescale
from segre.transformer.by_layer import Base
from segre.values import choice, quote

FULL, SLIDING = "full_attention", "sliding_attention"


def layer_types(
    config: Config, layers: int, kinds: tuple[str, ...] = (FULL, SLIDING)
) -> list[str] | None:
    """The kind of every layer, if the config lists them."""
    key, value = config.get("layer_types")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != layers:
        raise SpecError(f"{key}: {quote(str(value))}; allowed: a list, one for each layer")
    return [choice(key, kind, kinds) for kind in value]


def window(config: Config) -> int:
    """The size of the window; 0 means none. Some families have a flag that turns it on."""
    key = "use_sliding_window"
    if key in config.family.defaults and not config.flag(key):
        return 0
    if config.get("sliding_window")[1] is None:
        return 0
    return config.count("sliding_window", smallest=2)


def chosen(config: Config, layers: int, size: int, otherwise: Callable[[int], bool]) -> list[int]:
    """The window of every layer; `otherwise` says which layers have one if there is no list."""
    listed = layer_types(config, layers)
    if listed is None:
        slides = [otherwise(i) for i in range(layers)]
    else:
        slides = [kind == SLIDING for kind in listed]
    if not size and any(slides):
        raise SpecError(f"layer_types: {SLIDING} needs sliding_window, a whole number")
    return [size if own else 0 for own in slides]


def rotations(
    config: Config,
    sizes: list[int],
    length: int,
    thetas: Mapping[str, tuple[str, int]],
    rescaled: tuple[str, ...],
) -> Values:
    """Base and rescaling of every layer; `sizes` are the windows, 0 means none.

    `thetas` has, by kind of layers, the key in which older configs have the base, and the base
    without one; `rescaled` are the kinds to which their key `rope_scaling` applies.
    """

    def frequencies(kind: str) -> tuple[Base, str]:
        key, theta = thetas[kind]
        scaling = config.given.get("rope_scaling") if kind in rescaled else None
        own = rope_of_kind(config.given, kind, config.given.get(key, theta), scaling)
        return rope_base(own), rope_rescale(own, length)

    known = {kind: frequencies(kind) for kind in thetas}
    each = [known[SLIDING if size else FULL] for size in sizes]
    return {"base": [base for base, _ in each], "rescale": [how for _, how in each]}
