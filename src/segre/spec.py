"""A stack of attention layers as data: what is it, before any number is chosen?

A `Network` is frozen and validated, holds no arrays, and has a digest, so that a result can name
exactly the architecture it is about. It is read from an inline string, a TOML or JSON file, or a
mapping; all four have the same keys. Every head has its own mechanism. Where all heads are plain
softmax or all plain lightning (`plain`), more is known: closed forms, normal forms, recovery.

>>> net = Network.parse("softmax/d=6,6/a=2/heads=3/t=3")
>>> net.depth, net.layers[0].heads, net.parameters
(1, 3, 180)
>>> str(net)
'softmax/d=6,6/a=2/heads=3/t=3'
>>> str(Network.parse("softmax/d=4,4/a=2/window=1/gate=head/t=5"))
'mix/d=4,4/a=2/heads=softmax:window=1:gate=head/t=5'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from segre.architectures import Layered
from segre.attention import NAMES
from segre.attention.layer import Group, Layer, regrouped
from segre.attention.mechanism import NAMED, OPTIONS, Mechanism
from segre.attention.reading import MOST_HEADS, SLOPES, heads_of, with_options
from segre.errors import SpecError, UnsupportedError
from segre.files import is_standard_input
from segre.values import (
    LARGEST,
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
MIX = "mix"  # the kind of specs that name the mechanism of every head
KINDS = (*NAMES, MIX)
KEYS = ("d", "layers", "a", "heads", "dv", *OPTIONS, "t")


@dataclass(frozen=True, repr=False)
class Network(Layered):
    """A stack of layers on t tokens, with a mechanism for every head.

    >>> net = Network.parse("lightning/d=4,3,2/a=2/t=5")
    >>> net.widths, net.parameters, net
    ((4, 3, 2), 46, Network.parse('lightning/d=4,3,2/a=2/t=5'))
    >>> net = Network.parse("mix/d=3,3,3/a=2/heads=lightning,softmax/t=3")
    >>> net.parameters, net.plain
    (42, False)
    """

    layers: tuple[Layer, ...]
    t: int

    residual: ClassVar[bool] = False
    norm: ClassVar[str] = "none"
    head_axes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not self.layers:
            raise SpecError("a stack needs at least one layer")
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.width_out != after.width_in:
                raise SpecError(
                    f"the widths of consecutive layers differ: {before.width_out} after one "
                    f"layer, {after.width_in} before the next; make them equal"
                )
        for layer in self.layers:
            for group in layer.groups:
                group.mechanism.require_sizes(layer.a, self.t)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.layers, self.t))

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms that occur, each once."""
        every = (group.mechanism for layer in self.layers for group in layer.groups)
        return tuple(dict.fromkeys(every))

    @property
    def mechanism(self) -> Mechanism:
        """The first mechanism; the only one, if the stack is plain."""
        return self.mechanisms[0]

    @cached_property
    def plain(self) -> bool:
        """Whether all heads are plain softmax, or all are plain lightning."""
        return len(self.mechanisms) == 1 and self.mechanism.plain

    def require_plain(self) -> Network:
        """The stack itself, if it is plain; otherwise it is refused."""
        if not self.plain:
            raise UnsupportedError(
                f"spec {quote(str(self))}: its heads have mechanisms with options; allowed here: "
                "plain softmax or lightning (segre.attend takes all weights)"
            )
        return self

    @property
    def residuals_in_balls(self) -> bool:
        """Whether residuals below the smallest float need balls: all but plain softmax do."""
        return not (self.plain and self.mechanism.sums_to_one)

    @property
    def score(self) -> str:
        """The name of the attention mechanism of a plain stack."""
        return self.mechanism.name

    @property
    def heads_by_layer(self) -> list[int]:
        """How many heads each layer has."""
        return [layer.heads for layer in self.layers]

    @cached_property
    def exponentials(self) -> bool:
        """Whether it computes any transcendental function."""
        return any(one.exponentials for one in self.mechanisms)

    @property
    def gated_elements(self) -> bool:
        """Whether heads have a gate for every element of what they mix."""
        return any(one.gate == "element" for one in self.mechanisms)

    @cached_property
    def roots(self) -> bool:
        """Whether it takes square roots."""
        return any(one.roots for one in self.mechanisms)

    @cached_property
    def piecewise(self) -> bool:
        """Whether the function is piecewise."""
        return any(one.piecewise for one in self.mechanisms)

    @property
    def regions(self) -> tuple[str, ...]:
        """What separates the regions of a piecewise function, in words."""
        return ("relu or elu",) if self.piecewise else ()

    @property
    def salted(self) -> bool:
        """Whether points mod p have salts; plain stacks have no square roots."""
        return not self.plain

    @property
    def salts_searched(self) -> bool:
        """Whether its salts are searched: without roots and regions, all are good."""
        return self.roots or self.piecewise

    @property
    def salts_mix(self) -> bool:
        """Whether values drawn for one token in a layer affect other tokens in the same layer."""
        return any(one.feature != "none" or one.normalise == "both" for one in self.mechanisms)

    @property
    def first_token_alone(self) -> bool:
        """Whether nothing is drawn for the first token, which sees only itself."""
        return all(one.causal and one.gate == "none" for one in self.mechanisms)

    @property
    def has_closed_form(self) -> bool:
        """Whether the dimension is a known formula in the sizes: if layers have a single head."""
        return self.plain and self.one_headed

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output."""
        return self.layers[-1].width_out, self.t

    @property
    def one_headed(self) -> bool:
        """Whether every layer has a single head with an unfactored value map."""
        return all(layer.heads == 1 and layer.dv is None for layer in self.layers)

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(layer.parameters for layer in self.layers)

    def document(self) -> dict[str, Any]:
        """The canonical mapping, one value per layer; keys with only default values are left out.

        This is the inverse of `from_mapping`. Adding a key in a later version changes no older
        digest.
        """
        return self._columns(self.score, self.heads_by_layer) if self.plain else self.by_head()

    def by_head(self) -> dict[str, Any]:
        """The mapping that names the mechanism of every head, also of a plain stack."""
        return self._columns(MIX, [layer.text for layer in self.layers])

    def _columns(self, kind: str, heads: list[Any]) -> dict[str, Any]:
        columns = {
            "a": [layer.a for layer in self.layers],
            "heads": heads,
            "dv": [layer.dv for layer in self.layers],
        }
        given = {k: v for k, v in columns.items() if any(x != _DEFAULTS[k] for x in v)}
        return {"version": VERSION, "kind": kind, "d": list(self.widths), **given, "t": self.t}

    def __str__(self) -> str:
        """The shortest inline string that reads back as this network."""
        document = self.document()
        parts = [document["kind"], "d=" + ",".join(map(str, self.widths))]
        for key in (key for key in _DEFAULTS if key in document):
            values = document[key]
            values = values[:1] if len(set(values)) == 1 else values
            parts.append(f"{key}=" + ",".join(show(value) for value in values))
        return "/".join([*parts, f"t={self.t}"])

    def __repr__(self) -> str:
        """How it is read from its inline string."""
        return f"Network.parse({str(self)!r})"

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
        if isinstance(source, str) and head in KINDS:
            return cls.from_inline(text)
        path = Path(text)
        if path.suffix in {".toml", ".json"} or is_standard_input(text):
            return cls.from_mapping(read_file(path), quoted=text)
        raise SpecError(
            f"spec {quote(text)} is neither an inline spec nor a .toml or .json file; inline "
            f"specs begin with {', '.join(NAMES)} or {MIX}, for example lightning/d=4,4,4/a=2,2/t=3"
        )

    @classmethod
    def from_inline(cls, text: str) -> Network:
        """Read a network from an inline string that is not the name of a file."""
        return cls.from_mapping(read_inline(text, KEYS), quoted=text)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], quoted: str | None = None) -> Network:
        """Read a network from keys and values; `quoted` is how errors name it."""
        try:
            return _build(short_names(given, d_head="a"))
        except SpecError as error:
            name = quoted if quoted is not None else json.dumps(dict(given), default=str)
            raise SpecError(f"spec {quote(name)}: {error}") from None


_DEFAULTS: dict[str, Any] = {"a": None, "heads": 1, "dv": None}


def _build(given: Mapping[str, Any]) -> Network:
    require_keys(given, KEYS, VERSION, OF_TRANSFORMERS)
    kind = choice("kind", given.get("kind"), KINDS)
    widths = widths_of(given)
    depth = len(widths) - 1
    if "a" not in given:
        raise SpecError("a is missing; give the head rank, for example a=2")
    columns = {key: layerwise(key, given.get(key, _DEFAULTS[key]), depth) for key in _DEFAULTS}
    options = {key: layerwise(key, given[key], depth) for key in OPTIONS if key in given}
    if kind == MIX and not any(isinstance(one, str) for one in columns["heads"]):
        raise SpecError("heads: mechanisms are missing; for example heads=softmax*2+lightning")
    layers = []
    for i in range(depth):
        own = {key: values[i] for key, values in options.items()}
        heads, a, dv = (columns[key][i] for key in ("heads", "a", "dv"))
        groups = _groups(NAMED.get(kind, NAMED["softmax"]), own, heads)
        layers.append(Layer(widths[i], widths[i + 1], groups, whole("a", a), optional("dv", dv)))
    if "t" not in given:
        raise SpecError("t is missing; give the number of tokens, for example t=3")
    return Network(tuple(layers), whole("t", given["t"]))


def _groups(base: Mechanism, options: Mapping[str, Any], heads: Any) -> tuple[Group, ...]:
    """The heads of a layer: mechanisms that are named, or a number of heads with options."""
    if options and isinstance(heads, str):
        raise SpecError(
            f"{', '.join(options)} cannot be combined with heads that name mechanisms; write "
            f"softmax:{next(iter(options))}=... for the heads that have it"
        )
    base = with_options(base, options)
    if isinstance(heads, str) or base.decay == SLOPES:
        return regrouped(heads_of("heads", heads, base))
    return (Group(base, whole("heads", heads, LARGEST if base.plain else MOST_HEADS)),)


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
