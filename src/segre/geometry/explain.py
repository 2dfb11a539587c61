"""Which symmetries does an architecture have, and which design choice removes which?

Each choice is undone by itself, and the redundant parameters are counted again by the same
formulas: what appears or goes away is what the choice costs. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from segre.architectures import Architecture
from segre.finding import Finding, Status, Symmetry
from segre.geometry.at_any_size import asked_for, at_a_point, at_any_size, counted
from segre.geometry.choices import Choice, by_piece, choices
from segre.geometry.conserved import Laws, has_laws, laws
from segre.geometry.dimension import Method, dimension, too_large
from segre.geometry.memory import DEFAULT_LIMIT, bytes_for_symmetries, require_memory
from segre.geometry.point import Point
from segre.geometry.progress import Progress, quiet
from segre.geometry.rank import symmetry_rank
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
    known = sum(by_piece(found.symmetries).values())
    if found.upper_evidence is not None and (found.redundant or 0) > known:
        why = f"the dimension is at most {found.upper:,}: {found.upper_evidence.statement}"
        found = replace(found, notes=(why, *found.notes))

    def count(other: Architecture) -> tuple[Symmetry, ...]:
        require_memory(other, bytes_for_symmetries(other), memory)
        return symmetry_rank(Point.draw(other, seed)).symmetries

    return Explanation(
        name,
        found,
        discrete_symmetries(net),
        tuple(choices(net, found.symmetries, count)),
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
    undone = choices(net, found.symmetries, lambda other: count(other).symmetries) if undo else ()
    known = found.upper_evidence
    how = _AT_A_POINT if known is not None and known.kind == "symmetries" else _BY_FORMULAS
    return Explanation(name, found, discrete_symmetries(net), tuple(undone), how)
