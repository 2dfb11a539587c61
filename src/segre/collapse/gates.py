"""Weights of a model with output gates that it was not trained with.

A checkpoint has no W_G for a gate that its design lacks. It is drawn as a model has it before
training: normal with deviation 0.02, by a seed. What is measured with it is the model on the day
that gates are added, not the model that training with gates would give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from segre.fields.interface import Array
from segre.transformer.drawn import Drawn
from segre.transformer.forward import Tensors, WeightSource
from segre.transformer.spec import Transformer

GATES = "W_G"


@dataclass(frozen=True)
class WithGates:
    """The weights of a model, with random W_G for edits of its spec that have gates."""

    weights: WeightSource
    seed: int = 0

    @property
    def spec(self) -> Transformer:
        """The architecture without the gates."""
        return self.weights.spec

    @cached_property
    def drawn(self) -> Drawn:
        """What the gates are taken from."""
        return Drawn(replace(self.spec, gate="element"), self.seed)

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Tables are unchanged."""
        return self.weights.columns(name, which, dtype)

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part; of an attention, its gates too."""
        found = self.weights.part(part, names, dtype)
        return found | self.drawn.part(part, [GATES], dtype) if "W_O" in found else found
