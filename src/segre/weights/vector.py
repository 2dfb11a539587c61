"""The weights of a small network: a spec and a vector of floats, or of exact fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from segre.fields.interface import Array
from segre.models import only
from segre.network import LayerWeights, tensors
from segre.spec import KINDS, Network
from segre.weights.numbers import Numbers, random_fractions

Source = str | Path | Mapping[str, Any] | Network
_NAMES = ("W_K", "W_Q", "W_V", "W_O")


@dataclass(frozen=True)
class Weights(Numbers):
    """A spec and its vector of weights: float64, or objects that are exact fractions.

    >>> w = Weights.random("lightning/d=2,2/a=1/t=2", seed=1, exact=True)
    >>> w.exact, w.layers[0].W_V.shape
    (True, (1, 2, 2))
    """

    spec: Network
    vector: Array
    kind: ClassVar = Network
    _axes: ClassVar[str] = "heads, rows, columns"

    @property
    def network(self) -> Network:
        """The spec, if all heads are plain softmax or plain lightning; otherwise refused."""
        return self.spec.require_plain()

    @cached_property
    def layers(self) -> list[LayerWeights[Array]]:
        """The tensors of each layer."""
        assert self.network.plain
        return [LayerWeights(**own) for own in self.tables]

    @classmethod
    def random(cls, spec: Source, seed: int = 0, *, exact: bool = False) -> Weights:
        """Normal weights scaled by width, or small random fractions; decays between 0 and 1."""
        net = only(
            Network,
            spec,
            "weights are drawn for stacks of attention layers only; allowed: "
            + ", ".join(f"{kind}/" for kind in KINDS),
        )
        rng = np.random.default_rng(seed)
        vector = (random_fractions if exact else np.random.Generator.standard_normal)(
            rng, net.parameters
        )
        for (_, name), slot in tensors(net).items():
            own = vector[slot.range]
            if name.endswith("decay"):
                vector[slot.range] = abs(own) / (1 + abs(own))
            elif not exact:
                vector[slot.range] = own / np.sqrt(slot.shape[-1])
        return cls(net, vector)

    @classmethod
    def of_layers(cls, spec: Source, layers: list[LayerWeights[Array]]) -> Weights:
        """From tensors; inverse of `layers`."""
        net = Network.parse(spec).require_plain()
        return cls.of_tables(net, [{name: getattr(w, name) for name in _NAMES} for w in layers])
