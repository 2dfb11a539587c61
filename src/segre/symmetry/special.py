"""Symmetries of a kind that only one place of a transformer has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.symmetry.balance import DEFICIENT
from segre.symmetry.basis import Basis
from segre.symmetry.piece import ModularWeights
from segre.symmetry.reach import annihilator
from segre.symmetry.space import (
    ALL,
    Added,
    Additive,
    Bias,
    FloatWeights,
    Freedom,
    Tensor,
    Weights,
    inverse_gain,
    tensors_of,
    unit_shift,
)
from segre.symmetry.wiring import Norm


@dataclass(frozen=True)
class Mean(Additive):
    """A constant in all entries of a tensor; the `last` bias takes it back, or nothing sees it."""

    source: Tensor
    last: Tensor | None = None
    often: tuple[int, int] = (1, 1)  # how often each is added to the stream

    def shape(self, _w: Weights) -> tuple[int, ...]:
        """A number."""
        return (1,)

    def added(self, w: Weights, elements: Array) -> Iterator[Added]:
        """It is added to all entries of one, and taken back from the other."""
        # what the entries of the source change by, where the stream moves by one
        unit = 1 if self.last is None else self.often[1] * unit_shift(w, self.source)
        yield self.source, ALL, (unit * elements)[..., None]
        if self.last is not None:
            yield self.last, ALL, -self.often[0] * elements[..., None]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """One, or both."""
        return (self.source,) if self.last is None else (self.source, self.last)


@dataclass(frozen=True)
class UnseenShift(Additive):
    """Tokens shift against another table along 1 / gain of the norm before a tied table.

    There a LayerNorm's output is constant, so that all logits of a token change alike; the bias of
    the logits takes the constant back.
    """

    table: Tensor
    site: Norm

    def shape(self, _w: Weights) -> tuple[int, ...]:
        """A number."""
        return (1,)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """A shift of the size of the other table's entries."""
        size = w.size(self.table) / float(np.linalg.norm(inverse_gain(w, self.site)))
        return np.asarray(size * rng.standard_normal(1))

    def added(self, w: Weights, elements: Array) -> Iterator[Added]:
        """What both tables and the bias of the logits change by."""
        F, spec, form = w.field, w.transformer, inverse_gain(w, self.site)
        scale = F.surd(spec.d) if spec.embscale else np.ones((1, 1))
        changes = [form, -F.mul(form, scale)]
        if self.site.bias is not None:
            changes.append(-F.sum(F.mul(form, w("head", self.site.bias)), axis=-2))
        for tensor, change in zip(self.tensors, changes, strict=True):
            yield tensor, ALL, elements[..., None] * change

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Both tables, and the bias of the logits."""
        bias = () if self.site.bias is None else (("head", "b_U"),)
        return (("embed", "tokens"), self.table, *bias)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """The norm."""
        return tensors_of(self.site)


@dataclass(frozen=True)
class CommonForm(Freedom):
    """x + e 1 (m(x) - k) instead of x, for the form m that is k on all that a norm writes.

    Layers that share their weights read embeddings and what their last norm writes. The elements
    are the factors by which m grows.
    """

    shear: Basis
    site: Norm
    source: Tensor | None  # the bias of the embeddings

    def __call__(self, w: ModularWeights) -> Array:
        """The generator."""
        F, form = w.field, inverse_gain(w, self.site).T
        rows = F.matmul(form, self.shear(w))
        if self.site.bias is None:
            return rows
        canvas, kappa = w.canvas(1), F.matmul(form, w(self.site.part, self.site.bias))
        for port in self.shear.ports:
            if port.reads and port.bias is not None:
                sums = F.sum(w(*port.tensor), axis=-1)
                canvas(*port.bias.tensor)[0] = F.mul(sums, kappa)
        if self.source is not None:
            canvas(*self.source)[0] = -F.mul(kappa, unit_shift(w, self.source))
        return F.add(rows, canvas.rows)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:  # noqa: ARG002
        """A factor."""
        return np.exp(rng.uniform(-0.7, 0.7, 1))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Change what is written, and let readers take it back."""
        form = inverse_gain(w, self.site).T
        by, kappa = (element - 1) / form.sum(), np.zeros(1)
        if self.site.bias is not None:
            kappa = (form @ w(self.site.part, self.site.bias))[0]
        for port in self.shear.ports:
            if port.tensor not in w.tensors:
                continue
            value = w(*port.tensor)
            if not port.reads:
                constant = kappa * unit_shift(w, port.tensor) if port.tensor == self.source else 0.0
                w.tensors[port.tensor] = value + by * (form @ value - constant)
                continue
            sums = value.sum(axis=-1, keepdims=True)
            w.tensors[port.tensor] = value - (by / element) * (sums @ form)
            if port.bias is not None and port.bias.tensor in w.tensors:
                bias = w(*port.bias.tensor)
                w.tensors[port.bias.tensor] = bias + (by / element) * kappa * sums

    def inverse(self, element: Array) -> Array:
        """The inverse factor."""
        return np.asarray(1 / element)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is written, and readers with their biases."""
        biases = (p.bias.tensor for p in self.shear.ports if p.bias is not None)
        return (*self.shear.tensors, *biases)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """The norm."""
        return tensors_of(self.site)


@dataclass(frozen=True)
class ValueKernel(Additive):
    """Value biases (or, after a LayerNorm, values) whose sum over all heads writes nothing."""

    part: str
    source: Bias
    heads: tuple[int, int]  # key-value heads, and entries of a value
    centred: bool  # the mean of what is written has no effect

    def shape(self, _w: Weights) -> tuple[int, ...]:
        """Any values, of which the part that writes nothing acts."""
        return (self.heads[0], 1, self.heads[1])

    def units(self, w: Weights) -> Array:
        """Values that write nothing."""
        assert isinstance(w.field, Prime)
        forms = annihilator(w.field, w.field.reduce(self._written(w)))
        return forms.reshape(-1, *self.shape(w))

    def added(self, w: Weights, elements: Array) -> Iterator[Added]:
        """What writes nothing."""
        if w.holds(self.source.tensor):
            if isinstance(w, FloatWeights):
                elements = self.unwritten(w, elements)
            yield self.source.added(w, elements)

    def _written(self, w: Weights) -> Array:
        """What the values of all heads write: (d, kv * v)."""
        joint = w(self.part, "W_O").sum(axis=1)
        joint = joint.swapaxes(0, 1).reshape(-1, prod(self.heads))
        return np.asarray(joint[1:] - joint[:1] if self.centred else joint)

    def unwritten(self, w: FloatWeights, value: Array) -> Array:
        """The part of values (kv, 1, v) that writes nothing."""
        _, sigma, rows = np.linalg.svd(self._written(w), full_matrices=False)
        rows = rows[sigma > DEFICIENT * sigma[0]]
        flat = value.reshape(-1, 1)
        return np.asarray((flat - rows.T @ (rows @ flat)).reshape(value.shape))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The biases."""
        return (self.source.tensor,)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """Norms that carry constants."""
        return self.source.needed
