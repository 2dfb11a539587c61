"""A stack of attention layers as data: what is it, before any number is chosen?

A `Network` is frozen and validated, holds no arrays, and has a digest, so that a result can name
exactly the architecture it is about. It is read from an inline string, a TOML or JSON file, or a
mapping; all four have the same keys.

>>> net = Network.parse("softmax/d=6,6/a=2/heads=3/t=3")
>>> net.depth, net.layers[0].attention.heads, net.parameters
(1, 3, 180)
>>> str(net)
'softmax/d=6,6/a=2/heads=3/t=3'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from segre.architectures import Layered
from segre.attention import PLAIN as NAMES
from segre.attention import mechanism
from segre.attention.mechanism import Mechanism
from segre.errors import SpecError
from segre.files import is_standard_input
from segre.values import (
    choice,
    optional,
    quote,
    read_file,
    read_inline,
    require_keys,
    short_names,
    show,
    whole,
)

VERSION = 1
OF_TRANSFORMERS = (
    "; for residuals, norms, MLPs and positions use a spec that begins with transformer/"
)
DEEPEST = 10_000


@dataclass(frozen=True, slots=True)
class Attention:
    """Heads of X -> V X score(X^T K^T Q X), summed; K and Q are a x d, V is d' x d.

    With `dv`, the value map of a head is the product W_O W_V through dv dimensions.
    """

    score: str  # the name of its mechanism
    heads: int
    a: int
    dv: int | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer from tokens of width `width_in` to tokens of width `width_out`."""

    width_in: int
    width_out: int
    attention: Attention

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
class Network(Layered):
    """A stack of layers on t tokens.

    >>> net = Network.parse("lightning/d=4,3,2/a=2/t=5")
    >>> net.widths, net.parameters, str(net)
    ((4, 3, 2), 46, 'lightning/d=4,3,2/a=2/t=5')
    """

    layers: tuple[Layer, ...]
    t: int

    residual: ClassVar[bool] = False
    head_axes: ClassVar[int] = 1
    piecewise: ClassVar[bool] = False
    salted: ClassVar[bool] = False  # there are no square roots

    def __post_init__(self) -> None:
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.width_out != after.width_in:
                raise SpecError(
                    f"the widths of consecutive layers differ: {before.width_out} after one "
                    f"layer, {after.width_in} before the next; make them equal"
                )
        if len({layer.attention.score for layer in self.layers}) != 1:
            raise SpecError(
                "a network needs at least one layer, and the same kind of score in all layers"
            )

    @property
    def score(self) -> str:
        """The name of the attention mechanism of every layer."""
        return self.layers[0].attention.score

    @property
    def mechanism(self) -> Mechanism:
        """The attention mechanism of every layer."""
        return mechanism(self.score)

    @property
    def heads_by_layer(self) -> list[int]:
        """How many heads each layer has."""
        return [layer.attention.heads for layer in self.layers]

    @property
    def exponentials(self) -> bool:
        """Whether it computes any transcendental function."""
        return self.mechanism.exponentials

    @property
    def has_closed_form(self) -> bool:
        """Whether the dimension is a known formula in the sizes: if layers have a single head."""
        return self.one_headed and self.mechanism.closed_form

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output."""
        return self.layers[-1].width_out, self.t

    @property
    def one_headed(self) -> bool:
        """Whether every layer has a single head with an unfactored value map."""
        return all(x.attention.heads == 1 and x.attention.dv is None for x in self.layers)

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(layer.parameters for layer in self.layers)

    def document(self) -> dict[str, Any]:
        """The canonical mapping, one value per layer; keys with only default values are left out.

        This is the inverse of `from_mapping`. Adding a key in a later version changes no older
        digest.
        """
        columns: dict[str, list[Any]] = {
            "a": [x.attention.a for x in self.layers],
            "heads": [x.attention.heads for x in self.layers],
            "dv": [x.attention.dv for x in self.layers],
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
            parts.append(f"{key}=" + ",".join(show(value) for value in values))
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
        if isinstance(source, str) and head in NAMES:
            return cls.from_inline(text)
        path = Path(text)
        if path.suffix in {".toml", ".json"} or is_standard_input(text):
            return cls.from_mapping(read_file(path), quoted=text)
        raise SpecError(
            f"spec {quote(text)} is neither an inline spec nor a .toml or .json file; inline "
            f"specs begin with {' or '.join(NAMES)}, for example lightning/d=4,4,4/a=2,2/t=3"
        )

    @classmethod
    def from_inline(cls, text: str) -> Network:
        """Read a network from an inline string that is not the name of a file."""
        return cls.from_mapping(read_inline(text, _KEYS), quoted=text)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], quoted: str | None = None) -> Network:
        """Read a network from keys and values; `quoted` is how errors name it."""
        try:
            return _build(short_names(given, d_head="a"))
        except SpecError as error:
            name = quoted if quoted is not None else json.dumps(dict(given), default=str)
            raise SpecError(f"spec {quote(name)}: {error}") from None


_DEFAULTS: dict[str, Any] = {
    "a": None,
    "heads": 1,
    "dv": None,
}
_KEYS = ("d", "layers", *_DEFAULTS, "t")


def _build(given: Mapping[str, Any]) -> Network:
    require_keys(given, _KEYS, VERSION, OF_TRANSFORMERS)
    score = choice("kind", given.get("kind"), NAMES)
    widths = widths_of(given)
    depth = len(widths) - 1

    if "a" not in given:
        raise SpecError("a is missing; give the head rank, for example a=2")
    columns = {key: layerwise(key, given.get(key, _DEFAULTS[key]), depth) for key in _DEFAULTS}
    layers = []
    for i in range(depth):
        value = {key: column[i] for key, column in columns.items()}
        attention = Attention(
            score=score,
            heads=whole("heads", value["heads"]),
            a=whole("a", value["a"]),
            dv=optional("dv", value["dv"]),
        )
        layers.append(Layer(widths[i], widths[i + 1], attention))
    if "t" not in given:
        raise SpecError("t is missing; give the number of tokens, for example t=3")
    return Network(tuple(layers), whole("t", given["t"]))


def layerwise(key: str, value: Any, depth: int) -> list[Any]:
    """One value for every layer, from one value or a list."""
    values = list(value) if isinstance(value, list | tuple) else [value] * depth
    if len(values) == 1:
        values *= depth
    if len(values) != depth:
        raise SpecError(
            f"{key} has {len(values)} values for {depth} layer{'s' * (depth > 1)}; "
            f"allowed: one value for all, or {depth}"
        )
    return values


def widths_of(given: Mapping[str, Any]) -> list[int]:
    """The widths d0, ..., dl."""
    if "d" not in given:
        raise SpecError("d is missing; give the widths d0,...,dl, for example d=4,4,4")
    value = given["d"]
    widths = [
        whole("d", width) for width in (value if isinstance(value, list | tuple) else [value])
    ]
    if "layers" in given:
        depth = whole("layers", given["layers"], DEEPEST)
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
