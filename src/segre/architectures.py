"""What can be asked of every architecture, whatever its kind?"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol


class Architecture(Hashable, Protocol):
    """What stacks and transformers have in common."""

    @property
    def t(self) -> int:
        """Number of tokens."""

    @property
    def depth(self) -> int:
        """Number of layers."""

    @property
    def width(self) -> int:
        """Width of the input of the first layer."""

    @property
    def width_in(self) -> int:
        """Rows of an input."""

    @property
    def vocab(self) -> int:
        """Rows of an input that give the token; 0 if inputs are arbitrary matrices."""

    @property
    def types(self) -> int:
        """Rows of an input that give the type of the token."""

    @property
    def discrete(self) -> bool:
        """Whether inputs are token sequences."""

    @property
    def embedded(self) -> bool:
        """Whether inputs are embedded: token sequences or patches."""

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output."""

    @property
    def head_axes(self) -> int:
        """Number of tensor axes that count heads."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of tokens before the first layer and after each."""

    @property
    def parameters(self) -> int:
        """Number of weights."""

    @property
    def exponentials(self) -> bool:
        """Whether it computes any transcendental function."""

    @property
    def piecewise(self) -> bool:
        """Whether it is given by different formulas in different regions."""

    @property
    def regions(self) -> tuple[str, ...]:
        """What separates the regions of a piecewise function, in words."""

    @property
    def piecewise_units(self) -> bool:
        """Whether it is piecewise by active units."""

    @property
    def nearly_signs(self) -> bool:
        """Whether norms give little more than signs: units see few values, and seldom switch."""

    @property
    def normal_cdf(self) -> bool:
        """Whether it computes the distribution function of a normal variable."""

    @property
    def salted(self) -> bool:
        """Whether points mod p have salts, for which its square roots exist."""

    @property
    def salts_searched(self) -> bool:
        """Whether its salts are searched: without roots and regions, all are good."""

    @property
    def salts_mix(self) -> bool:
        """Whether roots of a token may depend on what is drawn for another in the same stage."""

    @property
    def roots_after_mixing(self) -> bool:
        """Whether roots are taken after tokens are mixed, in the same stage."""

    @property
    def first_token_alone(self) -> bool:
        """Whether nothing is drawn for the first token, which sees only itself."""

    @property
    def gated_elements(self) -> bool:
        """Whether heads have a gate for every element of what they mix."""

    @property
    def has_closed_form(self) -> bool:
        """Whether the dimension is known as a formula in the sizes."""

    @property
    def counted(self) -> bool:
        """Whether its symmetries are counted by formulas, at any size."""

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON document, in hexadecimal."""

    def document(self) -> dict[str, Any]:
        """The canonical mapping."""


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a document, in hexadecimal."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Layered(ABC):
    """Networks that are lists of layers, whose inputs are any matrices."""

    layers: tuple[Any, ...]

    vocab: ClassVar[int] = 0
    types: ClassVar[int] = 0
    discrete: ClassVar[bool] = False
    embedded: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    piecewise_units: ClassVar[bool] = False
    nearly_signs: ClassVar[bool] = False
    normal_cdf: ClassVar[bool] = False
    roots_after_mixing: ClassVar[bool] = False

    @property
    def depth(self) -> int:
        """Number of layers l."""
        return len(self.layers)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """(d0, ..., dl): before the first layer and after each."""
        return (self.layers[0].width_in, *(layer.width_out for layer in self.layers))

    @property
    def width_in(self) -> int:
        """Rows of an input."""
        return self.widths[0]

    @property
    def width(self) -> int:
        """Width of the input of the first layer."""
        return self.width_in

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON document, in hexadecimal."""
        return digest_of(self.document())

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The canonical mapping."""
