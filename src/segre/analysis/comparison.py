"""Several designs side by side: what does each choice buy, and what does it cost?

Parameters, dimension and redundancy by piece; how one layer changes the residual of tokens that are
nearly alike; what the mixing weights guarantee; operations and state on long sequences.

>>> found = compare("softmax/d=4,4/a=2/dv=3/t=3", "softmax/d=4,4/a=2/dv=3/gate=element/t=3")
>>> [(one.name[:7], one.finding.value, one.exponents) for one in found.designs]
[('softmax', 27, (3,)), ('softmax', 45, (1,))]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from segre.architectures import Architecture
from segre.attention.mechanism import Mechanism
from segre.collapse.mechanisms import expected_order
from segre.errors import SpecError, TooLargeError
from segre.finding import GROUPS, Finding
from segre.geometry.at_any_size import asked_for
from segre.geometry.dimension import dimension
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.json_data import stated
from segre.models import Source, called, with_attention
from segre.sequence.cost import Costs, cost
from segre.shown import Tabular
from segre.spec import Network
from segre.transformer.choices import Output

TOKENS = (4096, 32768)
_VALUES = ("value-output", "scale", "mixing", "sum of heads", "heads GL")


@dataclass(frozen=True)
class Design:
    """One design, and what is known about it."""

    name: str
    finding: Finding
    cost: Costs
    exponents: tuple[int | None, ...] | None  # by layer; None where skips or norms change the rule
    mechanisms: tuple[Mechanism, ...]

    @cached_property
    def pieces(self) -> dict[str, int]:
        """Redundant parameters by piece."""
        if self.finding.redundancy is not None:
            return dict(self.finding.redundancy["pieces"])
        out = dict.fromkeys(GROUPS, 0)
        for symmetry in self.finding.symmetries:
            out[group_of(symmetry.name)] += symmetry.dimension
        return out

    @property
    def unexplained(self) -> int:
        """Redundant parameters in no piece: no known symmetry explains them."""
        return 0 if self.redundant is None else self.redundant - sum(self.pieces.values())

    @property
    def redundant(self) -> int | None:
        """Redundant parameters, by the upper bound or the estimate."""
        return self.finding.redundant

    def guaranteed(self, trait: str) -> bool:
        """Whether the weights of all heads have a trait."""
        return all(getattr(one, trait) for one in self.mechanisms)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        known = {trait: self.guaranteed(trait) for trait in GUARANTEES}
        own = {"guarantees": known, "cost": self.cost.document()["costs"]}
        finding = self.finding.document()
        return {**finding, **stated(self, "name pieces unexplained exponents", **own)}


GUARANTEES = {
    "sums_to_one": "weights sum to one",
    "non_negative": "never negative",
    "key_floor": "every key gets 1/t",
}


@dataclass(frozen=True)
class Designs(Tabular):
    """Designs side by side, with their costs at some sequence lengths."""

    designs: tuple[Design, ...]
    tokens: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the designs, as they were given."""
        return tuple(one.name for one in self.designs)

    @property
    def found(self) -> tuple[Finding, ...]:
        """Their dimensions."""
        return tuple(one.finding for one in self.designs)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "tokens designs")


def compare(
    *specs: Source,
    t: Sequence[int] = TOKENS,
    output: Output | None = None,
    seed: int = 0,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Designs:
    """Any designs side by side, in the order in which they are given.

    Dimensions are those of `dimension`: computed, or by a theorem, or a bound by counting. `t` are
    the numbers of tokens that costs are counted for. `output` asks about another output of
    language models.

    >>> found = compare("gpt2", "llama-3-8b")
    >>> [(one.value, one.redundancy["total"]) for one in found.found]
    [(123092456, 1347352), (8016918528, 13342720)]
    """
    if not specs:
        raise SpecError("nothing to compare; give one or more specs")
    designs = []
    for number, spec in enumerate(specs):
        progress("designs", number, len(specs))
        net = with_attention(spec, "segre compare")
        own = net if output is None else asked_for(net, output)
        name = called(spec)
        try:
            found = dimension(own, seed=seed, symmetries=True, memory=memory)
        except TooLargeError as error:
            raise TooLargeError(f"{error}; compare narrower designs") from None
        counts = cost(own, list(t))
        designs.append(Design(name, found, counts, exponents(own), own.mechanisms))
    return Designs(tuple(designs), tuple(t))


def exponents(spec: Architecture) -> tuple[int | None, ...] | None:
    """How every layer changes the residual of tokens that are nearly alike, as a power.

    Of a transformer None: skips, norms, positions and MLPs change the rule.
    """
    if not isinstance(spec, Network):
        return None
    return tuple(expected_order(layer, spec.t) for layer in spec.layers)


def group_of(name: str) -> str:
    """The piece that a symmetry of a stack belongs to."""
    if any(word in name for word in _VALUES):
        return "VO"
    return "residual" if "token" in name or "direction" in name else "QK"
