"""One checkpoint moved towards another by symmetries, block by block.

The second is reduced, turned into the basis of the first, and given the free choices of the first
(gains, means, gauges of heads, scales of units). Its function stays the same. Copies of one
function coincide with the first up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from segre.checkpoint.by_activations import Watched, stream_by_activations
from segre.checkpoint.function import require_same_scale
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import best_stream, settled, stream_products
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.nearest import nearest_choice
from segre.checkpoint.pairs import Centred, Finder, aligned_pairs, centred
from segre.checkpoint.reduce import Choose, Reduced, restore
from segre.checkpoint.same import require_same_architecture
from segre.checkpoint.sizes import blocks
from segre.fields.interface import Array
from segre.symmetry.compact import Elements, after, stream_freedom
from segre.symmetry.normal import EXACT
from segre.transformer.forward import Tokens
from segre.transformer.spec import Transformer
from segre.transformer.tensors import CONSTANTS, of_mlp

NEAR = 4.0  # rounding errors by which tables that are copies of each other may be apart
NEIGHBOURS = 0.9  # a cosine: by activations, only checkpoints this near stay as they are


@dataclass
class Nearness:
    """Distances and angle between two checkpoints in one block, before and after."""

    name: str
    size: float = 0.0  # of the first, squared, and so on
    before: float = 0.0
    after: float = 0.0
    size_before: float = 0.0
    size_after: float = 0.0
    inner_before: float = 0.0
    inner_after: float = 0.0

    def add(self, target: Array, old: Array, new: Array) -> None:
        """Count a tensor."""
        for t, x, y in blocks(target, old, new):
            before, after = t - x, t - y
            self.size += float(np.vdot(t, t))
            self.before += float(np.vdot(before, before))
            self.after += float(np.vdot(after, after))
            self.size_before += float(np.vdot(x, x))
            self.size_after += float(np.vdot(y, y))
            self.inner_before += float(np.vdot(t, x))
            self.inner_after += float(np.vdot(t, y))

    def join(self, other: Nearness) -> None:
        """Count all that another has counted."""
        for item in fields(self)[1:]:
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))

    def distances(self) -> tuple[float, float]:
        """Before and after, relative to the size of the first."""
        size = max(self.size, 1e-300)
        return (self.before / size) ** 0.5, (self.after / size) ** 0.5

    def cosines(self) -> tuple[float, float]:
        """Before and after."""
        before = (self.size * self.size_before) ** 0.5
        after = (self.size * self.size_after) ** 0.5
        return self.inner_before / max(before, 1e-300), self.inner_after / max(after, 1e-300)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        distances, cosines = self.distances(), self.cosines()
        return {
            "block": self.name,
            "distance": {"before": distances[0], "after": distances[1]},
            "cosine": {"before": cosines[0], "after": cosines[1]},
        }


class Known(Finder):
    """Matches heads and units in a given basis of the stream."""

    def stream(
        self, _spec: Transformer, _one: Tensors, _two: Tensors, _unembedded: Array | None
    ) -> Elements:
        """The basis that is given."""
        return self.basis


class FartherError(Exception):
    """Alignment would increase the distance between the checkpoints."""


class Alignment:
    """Aligns `two` to `one`; `blocks` has the distances once all parts are done."""

    def __init__(
        self,
        one: Model,
        two: Model,
        rounds: int = 1,
        progress: Progress = no_progress,
        batches: Sequence[Tokens] = (),
    ) -> None:
        require_same_architecture(one, two)
        require_same_scale(one, two)
        self.one, self.two, self.rounds, self.progress = one, two, rounds, progress
        self.batches = batches  # by activations on these; by weights, if there are none
        self.blocks: dict[str, Nearness] = {}
        self.total = Nearness("whole model")

    def parts(self) -> Iterator[tuple[str, Tensors]]:
        """The parts of the second checkpoint, aligned."""
        spec, finder = self.two.spec, self._finder()
        for a, b in aligned_pairs(self.one, self.two, finder):
            b.turn_beside(spec, finder.basis)
            restore(spec, a, b, self._choices(a, b))
            target = self.one.part(b.part)
            for name in (name for name in target if name.endswith(".gain")):
                exact = np.abs(b.tensors[name] - target[name]) <= EXACT * np.abs(target[name])
                b.tensors[name] = np.where(exact, target[name], b.tensors[name])
            self._restored(b.part, b.tensors, target)
            self._measure(b.part, b.tensors, target)
            yield b.part, b.tensors
        for block in self.blocks.values():
            self.total.join(block)
        before, after = self.total.distances()
        if after > before and (not self.batches or self.total.cosines()[0] > NEIGHBOURS):
            raise FartherError

    def _choices(self, _one: Reduced, _two: Reduced) -> Choose:
        """How the free choices of the second are found, from those of the first."""
        return nearest_choice

    def _restored(self, part: str, new: Tensors, target: Tensors) -> None:
        """What else is done to a part of the second, in place."""

    def unchanged(self) -> Iterator[tuple[str, Tensors]]:
        """The unchanged parts of the second checkpoint."""
        self.blocks, self.total = {}, Nearness("whole model")
        for part in self.two.parts:
            tensors = self.two.part(part)
            self._measure(part, tensors, self.one.part(part))
            yield part, tensors
        for block in self.blocks.values():
            self.total.join(block)

    def _finder(self) -> Finder:
        """A basis of the stream that is best for all weights, not only for the tables.

        Tables that are copies of each other determine it. With activations, the first basis is best
        for hidden states, and there is one round less.
        """
        finder = Centred() if not self.batches else self._watched(self._hidden())
        if stream_freedom(self.one.spec) == "none":
            return finder
        for _ in range(self.rounds - bool(self.batches)):
            inner = np.zeros((self.one.spec.d, self.one.spec.d))
            for done, (a, b) in enumerate(aligned_pairs(self.one, self.two, finder)):
                if a.part == "embed" and self._settled(a.tensors, b.tensors):
                    return Known(finder.basis)
                self.progress("basis of the stream", done, len(self.one.parts))
                rows = centred(a.tensors), centred(b.tensors)
                inner += stream_products(self.one.spec, a.part, *rows)
            basis = after(self.one.spec, best_stream(self.one.spec, inner), finder.basis)
            finder = self._watched(basis) if self.batches else Known(basis)
        return finder

    def _settled(self, one: Tensors, two: Tensors) -> bool:
        near = NEAR * max(self.one.roundoff(), self.two.roundoff())
        return not self.batches and settled(self.one.spec, one, two, near)

    def _hidden(self) -> Elements:
        return stream_by_activations(self.one, self.two, self.batches, self.progress)

    def _watched(self, basis: Elements) -> Finder:
        return Watched(self.one.spec, self.batches, basis)

    def _measure(self, part: str, new: Tensors, target: Tensors) -> None:
        old = self.two.part(part)
        for name, value in new.items():
            block = self._block(part, name)
            self.blocks.setdefault(block, Nearness(block)).add(target[name], old[name], value)

    def _block(self, part: str, name: str) -> str:
        if part in ("embed", "head"):
            return {"embed": "embeddings", "head": "head"}[part]
        mlp = of_mlp(name) or name in CONSTANTS
        return f"layer {part} {'MLP' if mlp else 'attention'}"
