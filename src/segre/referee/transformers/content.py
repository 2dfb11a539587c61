"""What does a certificate of a transformer consist of? Its parts, typed: sections 6 to 9."""

from __future__ import annotations

from dataclasses import dataclass

from segre.referee.claims import Claim
from segre.referee.transformers.numbers import Radicand
from segre.referee.transformers.weights import Layout
from segre.transformer.spec import Transformer

MOST_BITS = 4096
Salts = tuple[tuple[int, ...], ...]
Rows = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ModularMinor:
    """Section 6."""

    rows: Rows
    columns: tuple[int, ...]
    determinant: int
    salts: dict[int, Salts]


@dataclass(frozen=True, slots=True)
class BallMinor:
    """Section 8."""

    rows: Rows
    columns: tuple[int, ...]
    bits: int
    seed: int


@dataclass(frozen=True, slots=True)
class Independence:
    """Section 7: points, each with the salts of its two inputs."""

    points: tuple[int, ...]
    salts: tuple[tuple[Salts, Salts], ...]
    determinant: int


@dataclass(frozen=True, slots=True)
class Root:
    """Section 7: an input at which a radicand has no root; salts left out are zero."""

    place: Radicand
    input: int
    salts: Salts


@dataclass(frozen=True, slots=True)
class Symmetries:
    """Section 9."""

    rank: int
    salts: dict[int, Salts]
    free_roots: bool


@dataclass(frozen=True, slots=True)
class Upper:
    """Section 9, and the architecture whose symmetries they are: another one in section 11."""

    symmetries: Symmetries
    layout: Layout


@dataclass(frozen=True, slots=True)
class Contexts:
    """Section 10: how many columns there are."""

    count: int


@dataclass(frozen=True)
class Evidence:
    """What certificates of transformers and of mixed stacks have in common."""

    claim: Claim
    prime: int
    seed: int
    lower: ModularMinor | BallMinor
    independence: Independence | None
    roots: tuple[Root, ...]


@dataclass(frozen=True)
class Certificate(Evidence):
    """A certificate whose form is right and whose parts fit together."""

    layout: Layout
    upper: Upper | Contexts

    @property
    def spec(self) -> Transformer:
        """The architecture."""
        return self.layout.spec


def outputs(spec: Transformer) -> tuple[int, int]:
    """Rows and columns of the output."""
    if spec.labels:
        return spec.labels, spec.t if spec.read == "all" else 1
    hidden = spec.embed if spec.project else spec.d
    return (hidden if spec.output == "hidden" else spec.vocab), spec.t + spec.pooler
