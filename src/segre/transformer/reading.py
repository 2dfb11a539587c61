"""The choices of a transformer as users write them: read, and completed with defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args

from segre.attention import PLAIN as NAMES
from segre.attention.mechanism import Gate
from segre.errors import SpecError
from segre.spec import DEEPEST
from segre.transformer.by_layer import Attns, Bases, Dense, Rescales, Windows
from segre.transformer.choices import (
    DEFAULTS,
    KEYS,
    Bias,
    Choices,
    Decay,
    Layout,
    MlpKind,
    NormKind,
    Output,
    Place,
    Position,
    QkNorm,
    QkvFeature,
    Read,
    Router,
)
from segre.transformer.rescale import rescale
from segre.values import choice, flag, fraction, number, quote, require_keys, whole

VERSION = 1


def _bias(key: str, value: Any) -> Bias:
    if isinstance(value, bool):
        value = "all" if value else "none"
    found: Bias = choice(key, value, get_args(Bias))
    return found


def _qknorm(key: str, value: Any) -> QkNorm:
    if value in (True, False, "true", "false", "all"):
        return "all" if value == "all" else flag(key, value)
    raise SpecError(f"{key}: {quote(str(value))} is not allowed; allowed: true, false, all")


def _count(key: str, value: Any) -> int:
    return whole(key, value, smallest=0)


def _listed(key: str, value: Any) -> list[Any]:
    """One value for all layers, or one for each."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    if not 0 < len(given) <= DEEPEST:
        raise SpecError(f"{key}: {len(given)} values; allowed: 1, or at most one for each layer")
    return given


def _dense(key: str, value: Any) -> Dense:
    if not isinstance(value, list | tuple):
        return _count(key, value)
    return tuple(whole(key, one, 1, smallest=0) for one in _listed(key, value))


def _bases(key: str, value: Any) -> Bases:
    given = tuple(number(key, base) for base in _listed(key, value))
    return given[0] if len(given) == 1 else given


def _rescales(key: str, value: Any) -> Rescales:
    given = tuple(_rescale(key, how) for how in _listed(key, value))
    return given[0] if len(given) == 1 else given


def _mechanisms(key: str, value: Any) -> Attns:
    given = tuple(choice(key, name, NAMES) for name in _listed(key, value))
    return given[0] if len(given) == 1 else given


def _windows(key: str, value: Any) -> Windows:
    given = _listed(key, value) if value != [] else []
    for window in given:
        if whole(key, window, smallest=0) == 1:
            raise SpecError(
                f"{key}: 1 is not allowed, since a token would see only itself; allowed: 0 (no "
                "window) or whole numbers from 2"
            )
    return tuple(given)


def _rescale(key: str, value: Any) -> str:
    """The shortest equivalent text; empty if it changes nothing."""
    if value in ("", "none"):
        return ""
    if not isinstance(value, str):
        raise SpecError(
            f"{key}: {quote(str(value))} is not allowed; allowed: a rescaling such as linear:4"
        )
    found = rescale(value)
    return "" if found.idle else str(found)


def _reader(annotation: str) -> Callable[[str, Any], Any]:
    plain: dict[str, Callable[[str, Any], Any]] = {
        "int": _count,
        "bool": flag,
        "Fraction": fraction,
        "Bias": _bias,
        "QkNorm": _qknorm,
        "Windows": _windows,
        "Bases": _bases,
        "Dense": _dense,
        "Rescales": _rescales,
        "Attns": _mechanisms,
    }
    choices = {
        "MlpKind": MlpKind,
        "NormKind": NormKind,
        "Place": Place,
        "Position": Position,
        "Layout": Layout,
        "Router": Router,
        "Output": Output,
        "Read": Read,
        "Gate": Gate,
        "QkvFeature": QkvFeature,
        "Decay": Decay,
    }
    if annotation in plain:
        return plain[annotation]
    return lambda key, value: choice(key, value, get_args(choices[annotation]))


_READERS = {item.name: _reader(str(item.type)) for item in fields(Choices)}


def read(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the given keys, in the types of the fields."""
    require_keys(given, KEYS, VERSION)
    values = {
        key: _READERS[key](key, value)
        for key, value in given.items()
        if key in KEYS and value is not None
    }
    if "d" not in values:
        raise SpecError("d is missing; give the width, for example d=8")
    return values


def completed(values: dict[str, Any]) -> dict[str, Any]:
    """Fill in the choices that follow from the others."""
    out = dict(values)
    known = {**DEFAULTS, **values}
    d, heads = known["d"], known["heads"] or 1

    def fill(key: str, value: Any) -> None:
        if key not in out or (isinstance(value, int) and out[key] == 0 and key in _OPEN):
            out[key] = value

    fill("kv", heads)
    fill("head", d // heads if d % heads == 0 else 0)
    fill("dv", out["head"])
    fill("rotary", out["head"] if known["pos"] == "rope" and not known["kvrank"] else 0)
    fill("positions", known["offset"] + known["t"] if known["pos"] == "learned" else 0)
    discrete = known["vocab"] > 0
    ends = discrete or known["patch"] > 0
    fill("final", ends and known["norm"] != "none" and known["place"] != "post")
    fill("output", "softmax" if discrete or known["labels"] else "hidden")
    return out


_OPEN = ("kv", "head", "dv", "rotary", "positions")
FILLED = (*_OPEN, "final", "output")  # all that `completed` may fill in
