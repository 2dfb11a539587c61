"""Stacks of attention layers with a mechanism for every head, as data.

A stack whose heads are all plain softmax or all plain lightning is a `Network`, about which more is
known; `read` returns it as a `Network`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from segre.architectures import Layered
from segre.attention import NAMES, PLAIN
from segre.attention.mechanism import NAMED, OPTIONS, Mechanism
from segre.attention.reading import heads_of, with_options
from segre.errors import SpecError
from segre.hybrid.layer import HybridLayer, regrouped
from segre.spec import OF_TRANSFORMERS, VERSION, Network, layerwise, widths_of
from segre.values import (
    choice,
    optional,
    quote,
    read_inline,
    require_keys,
    short_names,
    show,
    whole,
)

MIX = "mix"
KINDS = (*NAMES, MIX)
KEYS = ("d", "layers", "a", "heads", "dv", *OPTIONS, "t")


@dataclass(frozen=True)
class Hybrid(Layered):
    """A stack of layers on t tokens, with a mechanism for every head.

    >>> net = Hybrid.parse("mix/d=3,3,3/a=2/heads=lightning,softmax/t=3")
    >>> net.parameters, str(net)
    (42, 'mix/d=3,3,3/a=2/heads=lightning,softmax/t=3')
    >>> str(Hybrid.parse("softmax/d=4,4/a=2/window=1/gate=head/t=5"))
    'mix/d=4,4/a=2/heads=softmax:window=1:gate=head/t=5'
    """

    layers: tuple[HybridLayer, ...]
    t: int

    residual: ClassVar[bool] = False
    head_axes: ClassVar[int] = 1
    salted: ClassVar[bool] = True
    has_closed_form: ClassVar[bool] = False
    piecewise_units: ClassVar[bool] = False
    roots_after_mixing: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for layer in self.layers:
            for group in layer.groups:
                _check(group.mechanism, layer.a, self.t)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms that occur, each once."""
        every = (group.mechanism for layer in self.layers for group in layer.groups)
        return tuple(dict.fromkeys(every))

    @property
    def mechanism(self) -> Mechanism:
        """The first mechanism; most stacks have several."""
        return self.mechanisms[0]

    @property
    def heads_by_layer(self) -> list[int]:
        """How many heads each layer has."""
        return [layer.heads for layer in self.layers]

    @property
    def exponentials(self) -> bool:
        """Whether it computes any transcendental function."""
        return any(one.exponentials for one in self.mechanisms)

    @property
    def roots(self) -> bool:
        """Whether it takes square roots."""
        return any(one.roots for one in self.mechanisms)

    @property
    def piecewise(self) -> bool:
        """Whether the function is piecewise."""
        return any(one.piecewise for one in self.mechanisms)

    @property
    def salts_mix(self) -> bool:
        """Whether values drawn for one token in a layer affect other tokens in the same layer."""
        return any(one.feature != "none" or one.normalise == "both" for one in self.mechanisms)

    @property
    def first_token_alone(self) -> bool:
        """Whether nothing is drawn for the first token, which sees only itself."""
        return all(one.causal and one.gate == "none" for one in self.mechanisms)

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output."""
        return self.layers[-1].width_out, self.t

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(layer.parameters for layer in self.layers)

    def document(self) -> dict[str, Any]:
        """The canonical mapping, one value per layer. Inverse of `from_mapping`."""
        dv = [layer.dv for layer in self.layers]
        return {
            "version": VERSION,
            "kind": MIX,
            "d": list(self.widths),
            "a": [layer.a for layer in self.layers],
            "heads": [_written(layer) for layer in self.layers],
            **({"dv": dv} if any(dv) else {}),
            "t": self.t,
        }

    def __str__(self) -> str:
        """The shortest inline string that reads back as this stack."""
        document = self.document()
        parts = [MIX, "d=" + ",".join(map(str, self.widths))]
        for key in ("a", "heads", "dv"):
            values = document.get(key, [])
            values = values[:1] if len(set(values)) == 1 else values
            parts += [f"{key}=" + ",".join(show(value) for value in values)] * bool(values)
        return "/".join([*parts, f"t={self.t}"])

    @classmethod
    def parse(cls, source: str | Mapping[str, Any] | Hybrid) -> Hybrid:
        """Read a stack with any mechanisms from an inline string or a mapping."""
        if isinstance(source, cls):
            return source
        given = source if isinstance(source, Mapping) else read_inline(str(source), KEYS)
        try:
            return _build(short_names(given, d_head="a"))
        except SpecError as error:
            raise SpecError(f"spec {quote(str(source))}: {error}") from None


def read(given: Mapping[str, Any], quoted: str) -> Network | Hybrid:
    """A stack from its keys: a `Network` if all heads are plain and of the same kind."""
    options = [key for key in OPTIONS if key in given]
    if given.get("kind") in PLAIN and not options and not _mechanisms(given.get("heads")):
        return Network.from_mapping(given, quoted)
    try:
        found = _build(short_names(given, d_head="a"))
    except SpecError as error:
        raise SpecError(f"spec {quote(quoted)}: {error}") from None
    return plain(found) or found


def plain(spec: Hybrid) -> Network | None:
    """The same stack as a `Network`, if possible."""
    if len(spec.mechanisms) > 1 or not spec.mechanism.plain:
        return None
    return Network.from_mapping(
        {
            "kind": spec.mechanism.name,
            "d": list(spec.widths),
            "a": [layer.a for layer in spec.layers],
            "heads": spec.heads_by_layer,
            "dv": [layer.dv for layer in spec.layers],
            "t": spec.t,
        }
    )


def _mechanisms(heads: Any) -> bool:
    """Whether `heads` names mechanisms."""
    every = heads if isinstance(heads, list | tuple) else [heads]
    return any(isinstance(one, str) for one in every)


def _build(given: Mapping[str, Any]) -> Hybrid:
    require_keys(given, KEYS, VERSION, OF_TRANSFORMERS)
    kind = choice("kind", given.get("kind"), KINDS)
    for key, example in (("a", "a=2"), ("t", "t=3")):
        if key not in given:
            raise SpecError(f"{key} is missing; for example {example}")
    widths = widths_of(given)
    depth, t = len(widths) - 1, whole("t", given["t"])
    options = {key: layerwise(key, given[key], depth) for key in OPTIONS if key in given}
    heads = layerwise("heads", given.get("heads", 1), depth)
    if kind == MIX and not _mechanisms(heads):
        raise SpecError("heads: mechanisms are missing; for example heads=softmax*2+lightning")
    a = layerwise("a", given["a"], depth)
    dv = layerwise("dv", given.get("dv"), depth)
    layers = []
    for i in range(depth):
        own = {key: values[i] for key, values in options.items()}
        if own and isinstance(heads[i], str):
            raise SpecError(
                f"{', '.join(own)} cannot be combined with heads that name mechanisms; write "
                f"softmax:{next(iter(own))}=... for the heads that have it"
            )
        base = with_options(NAMED.get(kind, NAMED["softmax"]), own)
        groups = regrouped(heads_of("heads", heads[i], base))
        layers.append(
            HybridLayer(widths[i], widths[i + 1], groups, whole("a", a[i]), optional("dv", dv[i]))
        )
    return Hybrid(tuple(layers), t)


def _written(layer: HybridLayer) -> str:
    return "+".join(
        group.mechanism.text + (f"*{group.heads}" if group.heads > 1 else "")
        for group in layer.groups
    )


def _check(mechanism: Mechanism, a: int, t: int) -> None:
    for key, wrong, allowed in (
        ("kernel", mechanism.kernel > t, f"1 to {t}, the number of tokens"),
        ("stride", mechanism.stride > t, f"1 to {t}, the number of tokens"),
        ("unit", mechanism.unit == "layer" and a == 1, "none, sphere if a=1"),
    ):
        if wrong:
            value = getattr(mechanism, key)
            raise SpecError(f"{mechanism.text}: {key}={value} is not allowed; allowed: {allowed}")
