"""What a config says of rotary positions: the base of the frequencies.

The library has had these keys in three places: at the top, in `rope_scaling`, and now in
`rope_parameters`. Types that rescale the frequencies and keep them distinct change neither the
weights nor what they can express; other types are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.errors import SpecError
from segre.transformer.spec import fraction
from segre.values import choice, quote, whole

TYPES = ("default", "linear", "dynamic", "llama3", "yarn")


def rope_base(config: Mapping[str, Any]) -> int:
    """The base of the rotary frequencies, of a config without surprises.

    >>> rope_base({"rope_theta": 500000.0}), rope_base({"rope_parameters": {"rope_theta": 1e6}})
    (500000, 1000000)
    """
    place = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    rope = config.get(place) or {}
    if not isinstance(rope, Mapping):
        raise SpecError(f"{place}: {quote(str(rope))} is not allowed; allowed: an object")
    for key, value in rope.items():
        if isinstance(value, Mapping):
            raise SpecError(f"{place}: {quote(str(key))}: allowed: one for all layers")
    kind = choice("rope_type", rope.get("rope_type", rope.get("type", "default")), TYPES)
    if kind != "default":
        _require_factor(rope.get("factor"))
    part = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1):
        raise SpecError(f"partial_rotary_factor: {quote(str(part))} is not allowed; allowed: 1")
    theta = rope.get("rope_theta", config.get("rope_theta", 10_000))
    if isinstance(theta, float) and theta.is_integer():
        theta = int(theta)
    return whole("rope_theta", theta, smallest=2)


def _require_factor(factor: Any) -> None:
    if not isinstance(factor, int | float) or fraction("rope factor", factor) < 1:
        raise SpecError(
            f"rope factor: {quote(str(factor))} is not allowed; allowed: numbers from 1"
        )
