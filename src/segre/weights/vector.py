"""The weights of a small network: a spec and a vector of floats, or of exact fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.models import only
from segre.network import LayerWeights, layer_starts, tensors, unflatten
from segre.spec import KINDS, Network
from segre.stack.stages import slots
from segre.weights.arrays import read_arrays
from segre.weights.numbers import Numbers, random_fractions
from segre.weights.tensors import tensors_of, write_tensors

Source = str | Path | Mapping[str, Any] | Network


@dataclass(frozen=True)
class Weights(Numbers):
    """A spec and its vector of weights: float64, or objects that are exact fractions.

    >>> w = Weights.random("lightning/d=2,2/a=1/t=2", seed=1, exact=True)
    >>> w.exact, w.layers[0].W_V.shape
    (True, (1, 2, 2))
    """

    spec: Network
    vector: Array

    @property
    def network(self) -> Network:
        """The spec, if all heads are plain softmax or plain lightning; otherwise refused."""
        return self.spec.require_plain()

    @cached_property
    def layers(self) -> list[LayerWeights[Array]]:
        """The tensors of each layer."""
        return [
            unflatten(layer, self.vector[start : start + layer.parameters])
            for layer, start in zip(self.network.layers, layer_starts(self.network), strict=True)
        ]

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
        parts = []
        for number, (layer, own) in enumerate(zip(net.layers, layers, strict=True), 1):
            for slot in slots(layer):
                tensor = getattr(own, slot.name)
                if tensor is None or tensor.shape != slot.shape:
                    found = None if tensor is None else tensor.shape
                    raise WeightsError(
                        f"layer {number}: {slot.name} has shape {found}; {str(net)!r} needs "
                        f"{slot.shape} (heads, rows, columns)"
                    )
                parts.append(tensor.reshape(-1))
        return cls(net, np.concatenate(parts))

    @classmethod
    def read(cls, path: str | Path) -> Weights:
        """Read a .json or .npz file, or standard input (`-`)."""
        try:
            return cls.of_document(read_arrays(Path(path), strings=("spec",)))
        except SegreError as error:
            raise WeightsError(f"weights {str(path)!r}: {error}") from None

    @classmethod
    def of_document(cls, given: dict[str, Any]) -> Weights:
        """From what `read_arrays` found in a file."""
        spec, named = tensors_of(given, _spec, lambda spec: spec.depth, _names)
        return cls.of_layers(spec, [LayerWeights(**own) for own in named])

    def write(self, path: str | Path) -> None:
        """Write a .json file (exact or float64) or an .npz file (float64)."""
        layers: list[dict[str, Array]] = [{} for _ in self.spec.layers]
        for (part, name), slot in tensors(self.spec).items():
            layers[int(part) - 1][name] = self.vector[slot.range].reshape(slot.shape)
        write_tensors(path, self.spec, layers)


def _names(_spec: Network, _place: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ("W_K", "W_Q", "W_V", "W_O"), ("W_O",)


def _spec(value: Any) -> Network:
    """The spec in a file of weights; it may not name another file."""
    if isinstance(value, str):
        return Network.from_inline(value)
    if isinstance(value, dict):
        return Network.from_mapping(value)
    raise WeightsError(
        "spec is not valid here; allowed: an inline spec, or a table of keys and values"
    )
