"""An architecture as data: what is a network, before any number is chosen?

A `Network` is frozen and validated, holds no arrays, and has a digest, so that a result can
name exactly the architecture it speaks of. It is read from an inline string, a TOML or JSON
file, or a mapping; all four have the same keys.

>>> net = Network.parse("softmax/d=6,6/a=2/heads=3/t=3")
>>> net.depth, net.layers[0].attention.heads, net.parameters
(1, 3, 180)
>>> str(net)
'softmax/d=6,6/a=2/heads=3/t=3'
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from segre.errors import SpecError

Score = Literal["lightning", "softmax"]
Position = Literal["none", "rope", "learned"]
NormKind = Literal["none", "rms", "layer"]
NormPlace = Literal["pre", "post", "sandwich"]
MlpKind = Literal["none", "gelu", "gelu-tanh", "silu", "relu", "swiglu", "geglu"]

VERSION = 1
LARGEST = 10**9
DEEPEST = 10_000
LONGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class Attention:
    """Heads of X -> V X score(X^T K^T Q X), summed; K and Q are a x d, V is d' x d.

    With `dv`, the value map of a head is the product W_O W_V through dv dimensions.
    """

    score: Score
    heads: int
    a: int
    dv: int | None = None
    causal: bool = False
    position: Position = "none"


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation of the tokens, and where it stands in the layer."""

    kind: NormKind = "none"
    place: NormPlace = "pre"


@dataclass(frozen=True, slots=True)
class Mlp:
    """A token-wise network with `hidden` units after the attention."""

    kind: MlpKind = "none"
    hidden: int | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer from tokens of width `width_in` to tokens of width `width_out`."""

    width_in: int
    width_out: int
    attention: Attention
    norm: Norm = Norm()
    mlp: Mlp = Mlp()
    residual: bool = False

    @property
    def parameters(self) -> int:
        """Number of entries of W_K, W_Q, W_V (and W_O) over all heads."""
        head = self.attention
        value = (
            self.width_out * self.width_in
            if head.dv is None
            else head.dv * (self.width_in + self.width_out)
        )
        return head.heads * (2 * head.a * self.width_in + value)


@dataclass(frozen=True)
class Network:
    """A stack of layers on t tokens."""

    layers: tuple[Layer, ...]
    t: int

    def __post_init__(self) -> None:
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.width_out != after.width_in:
                raise SpecError(
                    f"layers do not fit: one ends with width {before.width_out}, "
                    f"the next begins with {after.width_in}; make the two equal"
                )
        if len({layer.attention.score for layer in self.layers}) != 1:
            raise SpecError("a network needs at least one layer, and one kind of score in all")

    @property
    def score(self) -> Score:
        """The attention mechanism of every layer."""
        return self.layers[0].attention.score

    @property
    def depth(self) -> int:
        """Number of layers l."""
        return len(self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """(d0, ..., dl)."""
        return (self.layers[0].width_in, *(layer.width_out for layer in self.layers))

    @property
    def one_headed(self) -> bool:
        """Whether every layer has a single head with an unfactored value map."""
        return all(x.attention.heads == 1 and x.attention.dv is None for x in self.layers)

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON document, in hexadecimal."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """The canonical mapping, one value per layer; keys with only default values are left out.

        Inverse of `from_mapping`. A later version that adds a key changes no older digest.
        """
        columns: dict[str, list[Any]] = {
            "a": [x.attention.a for x in self.layers],
            "heads": [x.attention.heads for x in self.layers],
            "dv": [x.attention.dv for x in self.layers],
            "causal": [x.attention.causal for x in self.layers],
            "pos": [x.attention.position for x in self.layers],
            "norm": [x.norm.kind for x in self.layers],
            "place": [x.norm.place for x in self.layers],
            "mlp": [x.mlp.kind for x in self.layers],
            "ff": [x.mlp.hidden for x in self.layers],
            "residual": [x.residual for x in self.layers],
        }
        given = {k: v for k, v in columns.items() if any(x != _DEFAULTS[k] for x in v)}
        return {
            "version": VERSION,
            "kind": self.score,
            "d": list(self.widths),
            **given,
            "t": self.t,
        }

    def __str__(self) -> str:
        """The shortest inline string that reads back as this network."""
        document = self.document()
        parts = [self.score, "d=" + ",".join(map(str, self.widths))]
        for key in (key for key in _DEFAULTS if key in document):
            values = document[key]
            values = values[:1] if len(set(values)) == 1 else values
            parts.append(f"{key}=" + ",".join(_show(value) for value in values))
        return "/".join([*parts, f"t={self.t}"])

    @classmethod
    def parse(cls, source: str | Path | Mapping[str, Any] | Network) -> Network:
        """Read a network from an inline string, a .toml or .json file, or a mapping.

        >>> Network.parse("lightning/d=4,4,4/a=2/t=3").widths
        (4, 4, 4)
        >>> Network.parse({"kind": "lightning", "d": [3, 2], "a": 1, "t": 2}).parameters
        12
        """
        if isinstance(source, cls):
            return source
        if isinstance(source, Mapping):
            return cls.from_mapping(source)
        text = str(source)
        head = text.split("/", 1)[0]
        if isinstance(source, str) and head in get_args(Score):
            return cls.from_mapping(_read_inline(text), quoted=text)
        path = Path(text)
        if path.suffix in {".toml", ".json"}:
            return cls.from_mapping(_read_file(path), quoted=text)
        raise SpecError(
            f"spec {_quote(text)}: neither an inline spec nor a .toml or .json file; "
            f"inline specs begin with {' or '.join(get_args(Score))}, "
            "for example lightning/d=4,4,4/a=2,2/t=3"
        )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], quoted: str | None = None) -> Network:
        """Read a network from keys and values; `quoted` is how errors name it."""
        try:
            return _build(given)
        except SpecError as error:
            name = quoted if quoted is not None else json.dumps(dict(given), default=str)
            raise SpecError(f"spec {_quote(name)}: {error}") from None


_DEFAULTS: dict[str, Any] = {
    "a": None,
    "heads": 1,
    "dv": None,
    "causal": False,
    "pos": "none",
    "norm": "none",
    "place": "pre",
    "mlp": "none",
    "ff": None,
    "residual": False,
}
_KEYS = ("version", "kind", "d", "layers", *_DEFAULTS, "t")


def _build(given: Mapping[str, Any]) -> Network:
    for key in given:
        if key not in _KEYS:
            raise SpecError(f"unknown key {_quote(str(key))}; allowed: {', '.join(_KEYS)}")
    if given.get("version", VERSION) != VERSION:
        raise SpecError(f"version {_quote(str(given['version']))} is not known; allowed: {VERSION}")
    score = _choice("kind", given.get("kind"), get_args(Score))
    widths = _widths(given)
    depth = len(widths) - 1

    def layerwise(key: str) -> list[Any]:
        value = given.get(key, _DEFAULTS[key])
        values = list(value) if isinstance(value, list | tuple) else [value] * depth
        if len(values) == 1:
            values *= depth
        if len(values) != depth:
            raise SpecError(
                f"{key} has {len(values)} values for {depth} layer{'s' * (depth > 1)}; "
                f"allowed: one value for all, or {depth}"
            )
        return values

    if "a" not in given:
        raise SpecError("a is missing; give the head rank, for example a=2")
    columns = {key: layerwise(key) for key in _DEFAULTS}
    layers = []
    for i in range(depth):
        value = {key: column[i] for key, column in columns.items()}
        attention = Attention(
            score=score,
            heads=_whole("heads", value["heads"]),
            a=_whole("a", value["a"]),
            dv=_optional("dv", value["dv"]),
            causal=_flag("causal", value["causal"]),
            position=_choice("pos", value["pos"], get_args(Position)),
        )
        norm = Norm(
            kind=_choice("norm", value["norm"], get_args(NormKind)),
            place=_choice("place", value["place"], get_args(NormPlace)),
        )
        mlp = Mlp(
            kind=_choice("mlp", value["mlp"], get_args(MlpKind)),
            hidden=_optional("ff", value["ff"]),
        )
        residual = _flag("residual", value["residual"])
        layers.append(Layer(widths[i], widths[i + 1], attention, norm, mlp, residual))
    if "t" not in given:
        raise SpecError("t is missing; give the number of tokens, for example t=3")
    return Network(tuple(layers), _whole("t", given["t"]))


def _widths(given: Mapping[str, Any]) -> list[int]:
    if "d" not in given:
        raise SpecError("d is missing; give the widths d0,...,dl, for example d=4,4,4")
    value = given["d"]
    widths = [
        _whole("d", width) for width in (value if isinstance(value, list | tuple) else [value])
    ]
    if "layers" in given:
        depth = _whole("layers", given["layers"], DEEPEST)
        if len(widths) == 1:
            widths *= depth + 1
        if len(widths) != depth + 1:
            raise SpecError(
                f"d has {len(widths)} widths for layers={depth}; allowed: 1 or {depth + 1}"
            )
    if not 2 <= len(widths) <= DEEPEST + 1:
        raise SpecError(
            f"d has {len(widths)} width{'s' * (len(widths) != 1)}; allowed: the widths d0,...,dl "
            f"of l layers, l from 1 to {DEEPEST} (or one width and layers=l)"
        )
    return widths


def _whole(key: str, value: Any, largest: int = LARGEST) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise SpecError(
            f"{key}: {_quote(str(value))} is not allowed; allowed: whole numbers 1 to {largest}"
        )
    return value


def _optional(key: str, value: Any) -> int | None:
    return None if value is None or value == "none" else _whole(key, value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{key}: {_quote(str(value))} is not allowed; allowed: true, false")
    return value


def _choice(key: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise SpecError(
            f"{key}: {_quote(str(value))} is not allowed; allowed: {', '.join(allowed)}"
        )
    return value


def _read_inline(text: str) -> dict[str, Any]:
    kind, *parts = text.split("/")
    given: dict[str, Any] = {"kind": kind}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise SpecError(
                f"spec {_quote(text)}: {_quote(part)} is not key=value; allowed keys: "
                f"{', '.join(_KEYS[2:])}"
            )
        if key in given:
            raise SpecError(f"spec {_quote(text)}: {key} is given twice; allowed: each key once")
        values = [_literal(item) for item in value.split(",")]
        given[key] = values[0] if len(values) == 1 else values
    return given


def _literal(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return int(text)
    return text


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise SpecError(f"spec {_quote(str(path))}: {error.strerror or error}") from None
    if len(data) > LONGEST_FILE:
        raise SpecError(f"spec {_quote(str(path))}: larger than {LONGEST_FILE} bytes; not a spec")
    try:
        text = data.decode()
        given = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise SpecError(
            f"spec {_quote(str(path))}: not a {path.suffix[1:].upper()} document ({reason})"
        ) from None
    if not isinstance(given, dict):
        raise SpecError(f"spec {_quote(str(path))}: not a table of keys and values")
    return given


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _quote(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
