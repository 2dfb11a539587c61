"""Which symmetries does an architecture have, and which design choice removes which?

Each choice is undone by itself, and the redundant parameters are counted again by the same
formulas: what appears or goes away is what the choice costs. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import Any

from segre.architectures import Architecture
from segre.errors import SpecError
from segre.finding import GROUPS, Finding, Status
from segre.geometry.at_any_size import at_any_size
from segre.geometry.choice import Choice, choices_undone
from segre.geometry.dimension import Method, dimension, too_large
from segre.geometry.laws import Laws, has_laws, laws
from segre.geometry.memory import DEFAULT_LIMIT, bytes_for_symmetries, require_memory
from segre.geometry.progress import Progress, quiet
from segre.geometry.redundancy import asked_for, at_a_point, counted
from segre.models import Source, architecture, called
from segre.shown import Tabular
from segre.symmetry.finite import Discrete, discrete_symmetries
from segre.transformer.choices import Output
from segre.transformer.spec import Transformer

_MIXTURE = (
    "a head with a gate for every element is a hierarchical mixture of experts: for query x its "
    "output is sum_j sigma(g_j . x) (sum_k P_k v_j . x_k) o_j, where the experts j are the "
    "columns o_j of W_O, each with its own gate g_j, and attention distributes the "
    "weights P_k over the keys k"
)
_AT_A_POINT, _BY_FORMULAS = "counted at a random point", "counted by formulas"


@dataclass(frozen=True)
class Explanation(Tabular):
    """The continuous symmetries, the discrete ones, and what each design choice does."""

    name: str  # as it was given
    finding: Finding
    discrete: tuple[Discrete, ...]
    choices: tuple[Choice, ...]
    counted: str
    laws: Laws | None = None  # what gradient flow conserves, where that is known

    @property
    def value(self) -> int | None:
        """The dimension; None if no theorem gives it."""
        return self.finding.value

    @property
    def lower(self) -> int | None:
        """The lower bound of the dimension."""
        return self.finding.lower

    @property
    def upper(self) -> int | None:
        """The upper bound of the dimension: the number of parameters that are not redundant."""
        return self.finding.upper

    @property
    def status(self) -> Status:
        """How certain the answer is."""
        return self.finding.status

    @property
    def how(self) -> str:
        """How it is known."""
        return self.finding.how

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            **self.finding.document(),
            "discrete": [found.document() for found in self.discrete],
            "choices": [choice.document() for choice in self.choices],
            "conserved": None if self.laws is None else self.laws.document(),
        }


def explain(
    spec: Source,
    seed: int = 0,
    *,
    output: Output | None = None,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Explanation:
    """The symmetries in numbers, and the design choices behind them.

    Symmetries of a transformer are counted by formulas or, where no formula is proved and it is
    small, at a random point. Symmetries of other networks are counted at a random point; of plain
    stacks and polynomial networks `laws` says what gradient flow conserves because of them.
    `output` selects another output of a language model: logits or softmax.

    >>> found = explain("transformer/d=6/heads=2/head=2/pos=rope/t=3")
    >>> [(choice.name, choice.change["QK"]) for choice in found.choices if choice.change["QK"]]
    [('rotary positions', 4)]
    >>> found = explain("lightning/d=4,4/a=2/t=3")
    >>> found.finding.redundant, found.laws.independent
    (5, 4)
    """
    net = architecture(spec)
    if output is not None:
        net = asked_for(net, output)
    found = _explained(net, called(spec), seed, memory, progress)
    if net.gated_elements:
        notes = (*found.finding.notes, _MIXTURE)
        found = replace(found, finding=replace(found.finding, notes=notes))
    return found


@singledispatch
def _explained(
    net: Architecture, name: str, seed: int, memory: int, progress: Progress
) -> Explanation:
    """Symmetries are counted at a random point, with every choice and without it."""
    require_memory(net, bytes_for_symmetries(net), memory)
    if too_large(net):
        found = replace(at_any_size(net, at_a_point), symmetries=at_a_point(net).symmetries)
    else:
        method: Method = "auto" if net.has_closed_form else "random"
        found = dimension(net, method, seed, symmetries=True, memory=memory, progress=progress)
    if found.upper_evidence is not None and (found.redundant or 0) > sum(_pieces(found).values()):
        why = f"the dimension is at most {found.upper:,}: {found.upper_evidence.statement}"
        found = replace(found, notes=(why, *found.notes))
    return Explanation(
        name,
        found,
        discrete_symmetries(net),
        tuple(choices_undone(net, _pieces(found), seed, memory)),
        _AT_A_POINT,
        laws(net, seed).of(found.symmetries) if has_laws(net) else None,
    )


@_explained.register
def _of_any_size(
    net: Transformer, name: str, _seed: int, _memory: int, _progress: Progress
) -> Explanation:
    return of_transformer(name, net, counted)


def of_transformer(
    name: str, net: Transformer, count: Callable[[Transformer], Finding], undo: bool = True
) -> Explanation:
    """Symmetries are counted, with every choice and, with `undo`, without it."""
    found = at_any_size(net, count)
    here = _pieces(found)
    choices = []
    for choice, instead, other in _alternatives(net) if undo else ():
        there = _pieces(count(other))
        change = {group: there[group] - here[group] for group in GROUPS}
        choices.append(Choice(choice, instead, other, change))
    known = found.upper_evidence
    how = _AT_A_POINT if known is not None and known.kind == "symmetries" else _BY_FORMULAS
    return Explanation(name, found, discrete_symmetries(net), tuple(choices), how)


def _pieces(found: Finding) -> dict[str, int]:
    redundancy = found.redundancy or {"pieces": dict.fromkeys(GROUPS, 0)}
    return dict(redundancy["pieces"])


def _alternatives(spec: Transformer) -> Iterator[tuple[str, str, Transformer]]:
    for name, instead, changes in _changes(spec):
        try:
            # through the reader, so that what contradicts itself is refused
            document = replace(spec, **changes).document()
            yield name, instead, Transformer.from_mapping(document)
        except SpecError:
            continue


_NO_MIXNORM = {"mixnorm": False, "mixeps": Fraction(0)}
_PLACES = {
    "post": "norms after the skips",
    "sandwich": "norms on both sides",
    "after": "norms after the layers",
}


def _changes(spec: Transformer) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each choice that was made, and the keys that undo it."""
    if spec.pos == "rope" and not spec.latent:
        yield (
            "rotary positions",
            "no positions",
            {"pos": "none", "rotary": 0, "base": spec.at(1).base},
        )
    if spec.pos == "learned":
        yield "learned positions", "no positions", {"pos": "none", "positions": 0, "offset": 0}
    if spec.qknorm:
        yield "norms of queries and keys", "none of them", {"qknorm": False}
    if spec.group > 1:
        yield "grouped queries", "separate keys and values for every head", {"kv": spec.heads}
    if spec.latent:
        plain = {"qrank": 0, "kvrank": 0, "rotary": 0, "pos": "none", "head": spec.head}
        yield "latent attention", "plain attention without positions", plain
    if spec.bias != "none":
        yield "biases", "no biases", {"bias": "none", "outbias": False}
    if spec.residual:
        bare = {"residual": False, "place": "pre", "parallel": False, "skip": type(spec.skip)(1)}
        yield "skips", "no skips", bare
    if spec.parallel:
        yield "attention and MLP in parallel", "attention, then the MLP", {"parallel": False}
    if spec.norm != "none" and not spec.transform:
        plain = {"norm": "none", "final": False, "embnorm": False, "place": "pre"}
        if not spec.qknorm and not spec.latent:
            plain["eps"] = type(spec.eps)(0)
        kind = {"rms": "RMSNorm", "layer": "LayerNorm"}[spec.norm]
        yield kind, "no norms", plain
    if spec.place != "pre":
        final = spec.discrete
        name = _PLACES[spec.place]
        changes = {"place": "pre", "final": final, "skip": type(spec.skip)(1)}
        yield name, "norms before the layers", changes
    if spec.gain and spec.norm != "none":
        yield "gains of the norms", "no gains", {"gain": False}
    if spec.tied:
        yield "tied embeddings", "a separate table for the output", {"tied": False}
    elif (
        spec.discrete
        and not spec.labels
        and spec.output != "hidden"
        and not (spec.embed and not spec.transform)
    ):
        yield "untied embeddings", "one table for input and output", {"tied": True}
    if spec.share:
        yield "shared layers", "separate weights for every layer", {"share": False}
    if spec.eps:
        yield "eps in the norms", "eps = 0", {"eps": type(spec.eps)(0)}
    if spec.pooler and spec.labels:
        yield "the pooler", "labels of the first token itself", {"pooler": False}
    if spec.output == "softmax":
        yield "the softmax of the output", "the logits themselves", {"output": "logits"}
    if spec.gated:
        plain = {"mlp": "gelu", "limit": type(spec.limit)(0), **_no_experts(spec)}
        yield "the gate of the MLP", "a GELU MLP", plain
    if spec.sharedgate:
        yield "the gate of the shared experts", "no such gate", {"sharedgate": False}
    if spec.softmax_router:
        yield "a softmax over the experts", "a sigmoid for each", {"router": "sigmoid"}
    if spec.by_mechanism:
        plain = {"attn": "softmax", "feature": "none", "gate": "none", **_NO_MIXNORM}
        what = "softmax in all layers, without gates"
        yield "lightning layers", what, {**plain, "decay": "none"}
    if spec.decay != "none":
        yield "decays", "no decays", {"decay": "none"}
    if spec.feature != "none":
        what = "silu on queries, keys and values"
        yield what, "no activation of queries, keys and values", {"feature": "none"}
    if spec.mixnorm:
        yield "the norm after mixing", "no such norm", _NO_MIXNORM
    if spec.gate != "none":
        what = "head" if spec.gate == "head" else "mixed entry of a head"
        yield f"a gate for every {what}", "no gates", {"gate": "none"}
    if spec.sinks:
        yield "sinks", "none of them", {"sinks": False}
    if spec.cap:
        yield "the cap of the scores", "no cap", {"cap": type(spec.cap)(0)}


def _no_experts(spec: Transformer) -> dict[str, Any]:
    if not spec.experts:
        return {}
    routed = (
        "experts",
        "active",
        "shared",
        "eff",
        "dense",
        "groups",
        "within",
        "expbias",
        "sharedgate",
    )
    return {**dict.fromkeys(routed, 0), "router": "sigmoid", "ff": spec.ff or spec.eff}
