"""Two kinds of layers, with and without a window, each with its own rotary frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.models.config import Config
from segre.models.rope import rope_base, rope_config, rope_of_kind, rope_rescale
from segre.models.windows import FULL, SLIDING
from segre.transformer.by_layer import Base
from segre.transformer.spec import Transformer

# By kind of layers: the key in which older configs have the base, and the base without one.
Thetas = Mapping[str, tuple[str, int]]


def rotations(
    config: Config, sizes: list[int], length: int, thetas: Thetas, rescaled: tuple[str, ...]
) -> dict[str, Any]:
    """Base and rescaling of every layer; `sizes` are the windows, 0 means none.

    `rescaled` are the kinds to which the key `rope_scaling` of older configs applies.
    """

    def frequencies(kind: str) -> tuple[Base, str]:
        key, theta = thetas[kind]
        scaling = config.given.get("rope_scaling") if kind in rescaled else None
        own = rope_of_kind(config.given, kind, config.given.get(key, theta), scaling)
        return rope_base(own), rope_rescale(own, length)

    known = {kind: frequencies(kind) for kind in thetas}
    each = [known[SLIDING if size else FULL] for size in sizes]
    return {"base": [base for base, _ in each], "rescale": [how for _, how in each]}


def written_rotations(spec: Transformer, types: list[str], thetas: Thetas) -> dict[str, Any]:
    """The inverse of `rotations`; `types` are the kinds of the layers."""
    rope = {}
    for kind, (_, theta) in thetas.items():
        first = next((i for i, own in enumerate(types, 1) if own == kind), None)
        way = spec.at(first or 1)
        assert not isinstance(way.base, tuple)
        rope[kind] = rope_config(way.base, way.rescaling) if first else rope_config(theta, None)
    return rope
