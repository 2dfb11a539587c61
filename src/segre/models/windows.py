"""Sliding windows in configs: one size, and the layers that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from segre.errors import SpecError
from segre.models.config import Config
from segre.transformer.spec import Transformer
from segre.values import choice, quote

FULL, SLIDING = "full_attention", "sliding_attention"


def listed(config: Config, layers: int) -> list[bool] | None:
    """Which layers have a window, if the config lists them."""
    key, value = config.get("layer_types")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != layers:
        raise SpecError(f"{key}: {quote(str(value))}; allowed: a list, one for each layer")
    return [choice(key, kind, (FULL, SLIDING)) == SLIDING for kind in value]


def window(config: Config) -> int:
    """The size of the window; 0 means none."""
    if config.get("sliding_window")[1] is None:
        return 0
    return config.count("sliding_window", smallest=2)


def chosen(config: Config, layers: int, size: int, otherwise: Callable[[int], bool]) -> list[int]:
    """The window of every layer; `otherwise` says which layers have one if there is no list."""
    slides = listed(config, layers)
    if slides is None:
        slides = [otherwise(i) for i in range(layers)]
    if not size and any(slides):
        raise SpecError(f"layer_types: {SLIDING} needs sliding_window, a whole number")
    return [size if own else 0 for own in slides]


def kinds(spec: Transformer) -> list[str]:
    """The kind of every layer, as configs list them."""
    every = [spec.window[i % len(spec.window)] if spec.window else 0 for i in range(spec.layers)]
    return [SLIDING if window else FULL for window in every]


def widest(spec: Transformer) -> dict[str, Any]:
    """The key of a config with one window for all layers, or for those that it lists."""
    return {"sliding_window": max(spec.window, default=0) or None}


def written(spec: Transformer) -> dict[str, Any]:
    """The keys of a config, written in full if all windows have one size or there are none."""
    return {**widest(spec), "layer_types": kinds(spec)}
