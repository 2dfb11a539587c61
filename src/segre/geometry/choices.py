"""Which design choices does an architecture make, and which symmetries are behind each of them?

Each choice is undone by itself, and the redundant parameters are counted again in the same way:
what appears or goes away is what the choice costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import singledispatch
from typing import Any, TypeVar

from segre.architectures import Architecture
from segre.attention import PLAIN
from segre.attention.layer import Group, regrouped
from segre.attention.mechanism import LIGHTNING, NAMED, SOFTMAX, Mechanism
from segre.errors import SpecError, TooLargeError, UnluckyError
from segre.finding import GROUPS, Symmetry
from segre.polynomial.spec import Dense, Polynomial
from segre.slope import Slope
from segre.spec import Network
from segre.transformer.spec import Transformer

A = TypeVar("A", bound=Architecture)
Alternative = tuple[str, str, A]  # a choice, what stands instead, and the architecture with that


@dataclass(frozen=True)
class Choice:
    """A design choice, its alternative, and the change in redundancy."""

    name: str
    instead: str
    spec: Architecture  # the same network with the other choice
    change: dict[str, int]  # by piece: redundant parameters with the other choice, minus here

    @property
    def total(self) -> int:
        """Total number of redundant parameters with the alternative, minus that of this choice."""
        return sum(self.change.values())

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        own = {"choice": self.name, "instead_of": self.instead, "spec": str(self.spec)}
        return {**own, "change": self.change, "total": self.total}


def choices(
    spec: A, here: Iterable[Symmetry], count: Callable[[A], Iterable[Symmetry] | None]
) -> Iterator[Choice]:
    """The choices; those are left out that cannot be counted without, or at too great an expense.

    >>> net = Transformer.parse("transformer/d=6/heads=2/head=2/pos=rope/t=3")
    >>> [(choice.name, choice.instead) for choice in choices(net, (), lambda _: ())]
    [('rotary positions', 'no positions'), ('skips', 'no skips')]
    """
    own = by_piece(here)
    for name, instead, other in alternatives(spec):
        try:
            found = count(other)
        except (TooLargeError, UnluckyError):
            continue
        if found is not None:
            there = by_piece(found)
            yield Choice(name, instead, other, {one: there[one] - own[one] for one in GROUPS})


def by_piece(symmetries: Iterable[Symmetry]) -> Mapping[str, int]:
    """How many redundant parameters there are in each group of symmetries."""
    found = Counter[str]()
    for symmetry in symmetries:
        if symmetry.group:
            found[symmetry.group] += symmetry.dimension
    return found


@singledispatch
def alternatives(spec: Any) -> Iterator[Alternative[Any]]:
    """Each choice that was made, what stands instead, and the architecture with that."""
    raise TypeError(f"alternatives to a {type(spec).__name__} are not known")


@dataclass(frozen=True)
class Undone:
    """How a choice is undone: which keys get their defaults, and which get other values.

    The choice is that the first key does not have its default (or that it has the value that is
    written after it). If there are no keys, or more is needed, `when` says it.
    """

    name: str
    instead: str
    keys: str = ""
    other: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    when: Callable[[Any], Any] = lambda _: True

    def of(self, design: Any) -> Any:
        """The design without the choice; None if it was not made."""
        defaults = {one.name: one.default for one in fields(design)}
        keys: list[str] = []
        for wanted in self.keys.split():
            key, _, value = wanted.partition("=")
            own = getattr(design, key)
            if not keys and not (str(own) == value if value else own != defaults[key]):
                return None
            keys.append(key)
        if not self.when(design):
            return None
        return replace(design, **{**{key: defaults[key] for key in keys}, **self.other(design)})


def _to(**changes: Any) -> Callable[[Any], Mapping[str, Any]]:
    return lambda _: changes


# --- transformers ---------------------------------------------------------------------------------

_NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
_PLACES = {
    "post": "norms after the skips",
    "sandwich": "norms on both sides",
    "after": "norms after the layers",
}
_ROUTED = "experts active shared eff dense groups within expbias sharedgate"


def _no_norms(spec: Transformer) -> Mapping[str, Any]:
    return {} if spec.qknorm or spec.latent else {"eps": Fraction(0)}


def _plain_mlp(spec: Transformer) -> Mapping[str, Any]:
    without = {**dict.fromkeys(_ROUTED.split(), 0), "router": "sigmoid", "ff": spec.ff or spec.eff}
    return {"mlp": "gelu", "limit": Fraction(0), **(without if spec.experts else {})}


def _soft(spec: Transformer) -> bool:
    return spec.softmax_router


def _may_be_tied(spec: Transformer) -> bool:
    apart = spec.tied or spec.labels or spec.output == "hidden"
    return spec.discrete and not apart and not (spec.embed and not spec.transform)


_OF_TRANSFORMERS = (
    Undone(
        *("rotary positions", "no positions", "pos=rope rotary"),
        *(lambda s: {"base": s.at(1).base}, lambda s: not s.latent),
    ),
    Undone("learned positions", "no positions", "pos=learned positions offset"),
    Undone("norms of queries and keys", "none of them", "qknorm"),
    Undone(
        *("grouped queries", "separate keys and values for every head", ""),
        *(lambda s: {"kv": s.heads}, lambda s: s.group > 1),
    ),
    Undone("latent attention", "plain attention without positions", "kvrank qrank rotary pos"),
    Undone("biases", "no biases", "bias outbias"),
    Undone("skips", "no skips", "residual=True place parallel skip", _to(residual=False)),
    Undone("attention and MLP in parallel", "attention, then the MLP", "parallel"),
    *(
        Undone(
            *(name, "no norms", f"norm={norm} final embnorm place"),
            *(_no_norms, lambda s: not s.transform),
        )
        for norm, name in _NORMS.items()
    ),
    *(
        Undone(
            name, "norms before the layers", f"place={place} skip", lambda s: {"final": s.discrete}
        )
        for place, name in _PLACES.items()
    ),
    Undone(
        "gains of the norms", "no gains", "gain=True", _to(gain=False), lambda s: s.norm != "none"
    ),
    Undone("tied embeddings", "a separate table for the output", "tied"),
    Undone("untied embeddings", "one table for input and output", "", _to(tied=True), _may_be_tied),
    Undone("shared layers", "separate weights for every layer", "share"),
    Undone("eps in the norms", "eps = 0", "eps"),
    Undone("the pooler", "labels of the first token itself", "pooler", when=lambda s: s.labels),
    Undone(
        "the softmax of the output", "the logits themselves", "output=softmax", _to(output="logits")
    ),
    Undone("the gate of the MLP", "a GELU MLP", "", _plain_mlp, lambda s: s.gated),
    Undone("the gate of the shared experts", "no such gate", "sharedgate"),
    Undone("a softmax over the experts", "a sigmoid for each", "router", when=_soft),
    Undone(
        "lightning layers",
        "softmax in all layers, without gates",
        "attn feature gate mixnorm mixeps decay",
        when=lambda s: s.by_mechanism,
    ),
    Undone("decays", "no decays", "decay"),
    Undone(
        "silu on queries, keys and values", "no activation of queries, keys and values", "feature"
    ),
    Undone("the norm after mixing", "no such norm", "mixnorm mixeps"),
    Undone("a gate for every head", "no gates", "gate=head"),
    Undone("a gate for every mixed entry of a head", "no gates", "gate=element"),
    Undone("sinks", "none of them", "sinks"),
    Undone("the cap of the scores", "no cap", "cap"),
)


@alternatives.register
def _of_transformer(spec: Transformer) -> Iterator[Alternative[Transformer]]:
    for one in _OF_TRANSFORMERS:
        with suppress(SpecError):  # through the reader, so that what contradicts itself is refused
            other = one.of(spec)
            if other is not None:
                yield one.name, one.instead, Transformer.from_mapping(other.document())


# --- stacks ---------------------------------------------------------------------------------------

_OF_MECHANISMS = (
    Undone("a window", "no window", "window"),
    Undone("local blocks", "none", "local"),
    Undone("a causal mask", "no mask", "causal", when=lambda one: one.decay == "none"),
    Undone("compressed keys and values", "a key for every token", "conv kernel stride"),
    Undone("keys and queries of unit size", "without normalisation", "unit"),
    Undone("a feature map", "none", "feature"),
    Undone("biases of keys and queries", "none", "bias"),
    Undone("weights normalised over queries and keys", "over keys only", "normalise=both"),
    Undone("1/t subtracted from the weights", "the weights themselves", "normalise=centred"),
)


def _of_heads(every: Collection[Mechanism]) -> Iterator[Undone]:
    """How mechanisms with options are changed."""
    for gate in sorted({one.gate for one in every} - {"none"}):
        name, other = f"a gate for every {gate}", "head" if gate == "element" else "element"
        yield Undone(name, "no gate", f"gate={gate}")
        yield Undone(name, f"a gate for every {other}", f"gate={gate}", _to(gate=other))
    yield Undone("decay", "none (causal)", "decay")
    rates = [one.decay for one in every if _given_rate(one)]
    if len(set(rates)) > 1:
        name = "a separate decay for every head"
        yield Undone(name, "the same decay for all", "", _to(decay=rates[0]), _given_rate)
    yield from _OF_MECHANISMS
    if any(one.normalise == "keys" and one.linear for one in every):
        to_none = _to(normalise="none")
        yield Undone(
            "normalised weights", "not normalised", "", to_none, lambda one: one.normalise == "keys"
        )
    for one in (SOFTMAX, LIGHTNING):
        yield _always("these mechanisms", f"{one.name} in all heads", one)


def _given_rate(one: Mechanism) -> bool:
    """Whether a head has a decay that is not learned."""
    return isinstance(one.decay, Slope | Fraction)


def _always(name: str, instead: str, mechanism: Mechanism) -> Undone:
    """One mechanism for all heads."""
    steps = {one.name: getattr(mechanism, one.name) for one in fields(mechanism)}
    return Undone(name, instead, "", _to(**steps))


@alternatives.register
def _of_stack(spec: Network) -> Iterator[Alternative[Network]]:
    if spec.plain:
        own = f"{spec.score} attention"
        changes = [_always(own, f"{name} attention", NAMED[name]) for name in PLAIN]
    else:
        changes = list(_of_heads(spec.mechanisms))
    for one in changes:
        with suppress(SpecError):
            other = _edited(spec, one)
            if other != spec:
                yield one.name, one.instead, other
    if spec.plain and any(layer.heads > 1 for layer in spec.layers):
        alone = (replace(layer, groups=(Group(spec.mechanism, 1),)) for layer in spec.layers)
        yield "several heads", "one head in every layer", replace(spec, layers=tuple(alone))
    if any(layer.dv is not None for layer in spec.layers):
        layers = tuple(replace(layer, dv=None) for layer in spec.layers)
        instead = "one value matrix for each head"
        yield "factored value matrices", instead, replace(spec, layers=layers)


def _edited(spec: Network, undone: Undone) -> Network:
    """The same stack without a choice of its mechanisms."""
    layers = []
    for layer in spec.layers:
        heads = [group.mechanism for group in layer.groups for _ in range(group.heads)]
        layers.append(replace(layer, groups=regrouped([undone.of(one) or one for one in heads])))
    return replace(spec, layers=tuple(layers))


# --- polynomial networks --------------------------------------------------------------------------


@alternatives.register
def _of_polynomial(spec: Polynomial) -> Iterator[Alternative[Polynomial]]:
    if spec.degree > 1 and spec.depth > 1:
        yield f"the activation x^{spec.degree}", "no activation", replace(spec, degree=1)
    if spec.bias:
        yield "biases", "no biases", replace(spec, bias=False)
    if spec.convolutional:
        layers = tuple(Dense(layer.width_in, layer.width_out) for layer in spec.layers)
        yield "shared filters", "dense layers of the same widths", replace(spec, layers=layers)
