"""Rotary positions in configs: the base of the frequencies, and how they are rescaled.

The library has had these keys in three places: at the top, in `rope_scaling`, and now in
`rope_parameters`. Kinds of rescaling that specs cannot express are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from segre.errors import SpecError
from segre.transformer.by_layer import Base
from segre.transformer.rescale import PLACES, decimal, rescaled
from segre.values import choice, fraction, number, refused

TYPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")
# What the library reads in these places, by kind of rescaling or always.
KEYS = (
    *("rope_theta", "rope_type", "type", "partial_rotary_factor", "factor"),
    *("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    *("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"),
    *("short_factor", "long_factor"),
)


MOVED = ("llama3", "yarn", "longrope")  # kinds that know of a length before


def rope_of_kind(
    config: Mapping[str, Any], kind: str, theta: Any, scaling: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The rotary keys of one kind of layers, in the form of a config for all layers.

    `theta` and `scaling` are the values from other keys of older configs.

    >>> rope_of_kind({"rope_parameters": {"full": {"rope_type": "default"}}}, "full", 100)
    {'rope_parameters': {'rope_theta': 100, 'rope_type': 'default'}}
    """
    rope = config.get("rope_parameters") or {}
    own = rope.get(kind) if isinstance(rope, Mapping) else None
    for place, value in (("rope_parameters", rope), (kind, own or {}), ("rope_scaling", scaling)):
        if not isinstance(value, Mapping | None):
            raise refused(place, value, "an object")
    if any(key in rope for key in KEYS):
        raise SpecError(
            "rope_parameters is not allowed here; allowed: an object for each kind "
            f"of layers, such as {kind}"
        )
    # the library reads `truncate` beside the kinds of layers, and so never one of a kind
    said = {key: value for key, value in (own or {}).items() if key != "truncate"}
    return {"rope_parameters": {"rope_theta": theta, **said, **(scaling or {})}}


def rope_part(config: Mapping[str, Any]) -> float:
    """The part of a head that is rotary."""
    part = _rope(config).get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part is None:
        return 1.0
    if not _is_number(part) or not 0 < part <= 1:
        raise refused("partial_rotary_factor", part, "numbers above 0, at most 1")
    return float(part)


def rope_base(config: Mapping[str, Any], default: int = 10_000, *, part: float = 1.0) -> Base:
    """The base of the rotary frequencies, if this part of a head is rotary.

    >>> rope_base({"rope_theta": 500000.0}), rope_base({"rope_parameters": {"rope_theta": 1e6}})
    (500000, 1000000)
    >>> rope_base({"rope_theta": 999999.4420358813})
    Fraction(9999994420358813, 10000000000)
    """
    rope = _rope(config)
    if rope_part(config) != part:
        given = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
        raise refused("partial_rotary_factor", given, "1")
    theta = rope.get("rope_theta", config.get("rope_theta", default))
    return number("rope_theta", _number("rope_theta", theta), smallest=2)


def rope_rescale(config: Mapping[str, Any], length: int, *, latent: bool = False) -> str:
    """The rescaling of frequencies, as specs write it; `length` is the model's context.

    >>> rope_rescale({"rope_scaling": {"type": "linear", "factor": 4.0}}, 2048)
    'linear:4'
    """
    rope = _rope(config)
    kind = choice("rope_type", rope.get("rope_type", rope.get("type", "default")), TYPES)
    if kind == "default":
        return ""
    before = rope.get("original_max_position_embeddings")
    if config.get("original_max_position_embeddings") is not None and kind in MOVED:
        before = config["original_max_position_embeddings"]  # the library lets it win
    before = length if before is None or kind == "dynamic" else before
    given = {"factor": _factor(rope, kind, length, before)}
    if "length" in PLACES[kind]:
        given["length"] = _number("original_max_position_embeddings", before)
    given |= MORE[kind](rope, latent) if kind in MORE else {}
    texts = {
        key: [_decimal(key, x) for x in value] if isinstance(value, list) else _decimal(key, value)
        for key, value in given.items()
    }
    return str(rescaled({"kind": kind, **texts}))


def _factor(rope: Mapping[str, Any], kind: str, length: int, before: Any) -> Any:
    """The factor of a kind of rescaling; where it is silent, some kinds compare the lengths."""
    factor = rope.get("factor")
    if factor is None and kind in ("yarn", "longrope"):
        found = fraction("max_position_embeddings", length) / _number("original length", before)
        return max(found, Fraction(1)) if kind == "longrope" else found
    if not _is_number(factor) or fraction("rope factor", factor) < 1:
        raise refused("rope factor", factor, "numbers from 1")
    return factor


def _llama3(rope: Mapping[str, Any], _latent: bool) -> dict[str, Any]:
    """The numbers of turns between which frequencies change."""
    names = {name: f"{name}_freq_factor" for name in ("low", "high")}
    return {name: _number(key, rope.get(key)) for name, key in names.items()}


def _longrope(rope: Mapping[str, Any], _latent: bool) -> dict[str, Any]:
    """The divisors of frequencies, in short inputs and in long ones."""
    out: dict[str, Any] = {}
    for name in ("short", "long"):
        listed = rope.get(f"{name}_factor")
        if not isinstance(listed, list) or not listed:
            raise SpecError(f"{name}_factor: allowed: a list of numbers, one for each plane")
        out[name] = [_number(f"{name}_factor", x) for x in listed]
    return out | _attention(rope)


def _yarn(rope: Mapping[str, Any], latent: bool) -> dict[str, Any]:
    """The optional numbers of yarn that the library uses."""
    truncate = rope.get("truncate")
    if truncate not in (None, True, False):
        raise refused("truncate", truncate, "true, false")
    out: dict[str, Any] = {} if truncate in (None, True) else {"truncate": 0}
    for name in ("fast", "slow"):
        if rope.get(f"beta_{name}"):
            out[name] = _number(f"beta_{name}", rope[f"beta_{name}"])
    out |= _attention(rope)
    if "attention" not in out and rope.get("mscale") and rope.get("mscale_all_dim"):
        out["mscale"] = _number("mscale", rope["mscale"])
    if rope.get("mscale_all_dim") and (latent or "mscale" in out):
        out["all"] = _number("mscale_all_dim", rope["mscale_all_dim"])
    return out


def _attention(rope: Mapping[str, Any]) -> dict[str, Any]:
    """The factor of rotated queries and keys, if it is given."""
    if rope.get("attention_factor") is None:
        return {}
    found = _number("attention_factor", rope["attention_factor"])
    if not found:
        raise SpecError("attention_factor: 0 is not allowed; allowed: numbers above 0")
    return {"attention": found}


MORE = {"llama3": _llama3, "yarn": _yarn, "longrope": _longrope}  # what kinds have beside


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with the rotary keys, wherever it is."""
    place = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    rope = config.get(place) or {}
    if not isinstance(rope, Mapping):
        raise refused(place, rope, "an object")
    for key, value in rope.items():
        if isinstance(value, Mapping):
            raise refused(place, key, "one object for all layers")
    return rope


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(key: str, value: Any) -> Fraction:
    if not _is_number(value):
        raise refused(key, value, "numbers above 0")
    return fraction(key, value)


def _decimal(key: str, value: Any) -> str:
    """A number as specs write it; a quotient of lengths need not be a decimal number."""
    exact = fraction(key, value)
    below = exact.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    if below != 1:
        raise SpecError(f"rope {key}: {exact} is not a decimal number; give factor")
    return decimal(exact)
